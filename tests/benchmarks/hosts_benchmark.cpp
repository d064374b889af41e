// hosts_benchmark: measures, in milliseconds, how long the ranks of several hosts take to average gradients. Compares
// three ways: averaging in two levels (as trainings do, with float32 or bfloat16 between hosts), messages between all
// ranks, and Open MPI's all-reduce.
//
//   mpirun -np 4 --host n1:2,n2:2 hosts_benchmark [ITERATIONS]        15
//
// Uses the gradients of the MNIST, the CIFAR-10 and the ResNet-18 network, in buckets of 4 MiB. Each iteration runs all
// operations in turn. The time of an operation ends when the last rank has finished it. Prints the median time of each
// operation.
#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <vector>

#include "src/cli/launch/mpi_main.h"
#include "src/comm/allreduce/communicators.h"
#include "src/device/cpu_device.h"
#include "tests/benchmarks/interleaved.h"

namespace carillon {
namespace {

/// Averages through a communicator, as a step does.
class Averaged {
 public:
  Averaged(const Mpi& mpi, std::span<const int> hosts, Wire wire, std::size_t count)
      : communicator_(make_host_communicator(mpi, hosts, {}, {.wire = wire})),
        memory_(communicator_->allocate(count * sizeof(float))),
        values_(static_cast<float*>(memory_.data()), count) {}

  void run() {
    constexpr std::size_t bucket = (std::size_t{4} << 20) / sizeof(float);
    communicator_->acquire(device_.stream());
    std::ranges::fill(values_, 1e-3f);
    for (std::size_t begin = 0; begin < values_.size(); begin += bucket) {
      const std::size_t count = std::min(bucket, values_.size() - begin);
      communicator_->start_allreduce_mean(values_.subspan(begin, count), device_.stream());
    }
    communicator_->finish(device_.stream());
  }

 private:
  CpuDevice device_{1};
  std::unique_ptr<Communicator> communicator_;
  Buffer memory_;
  std::span<float> values_;
};

void measure(const Mpi& mpi, std::size_t count, int iterations) {
  std::vector<int> own_hosts(static_cast<std::size_t>(mpi.size()));
  std::iota(own_hosts.begin(), own_hosts.end(), 0);
  Averaged two_levels(mpi, mpi.hosts(), Wire::fp32, count), rounded(mpi, mpi.hosts(), Wire::bf16, count),
      flat(mpi, own_hosts, Wire::fp32, count);
  std::vector<float> values(count, 1e-3f);
  const auto all_reduce = [&] {
    MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    std::ranges::fill(values, 1e-3f);
  };
  std::vector<Operation> operations{{"two levels", [&] { two_levels.run(); }},
                                    {"two levels, bf16", [&] { rounded.run(); }},
                                    {"flat messages", [&] { flat.run(); }},
                                    {"MPI_Allreduce", all_reduce}};
  measure_in_turn(operations, 2, iterations);
  if (mpi.rank() != 0) return;
  for (const Operation& operation : operations) {
    fmt::print("{:.2f} MB; {}; {:.2f}\n", static_cast<double>(count) * sizeof(float) / 1e6, operation.name,
               operation.median() * 1e3);
  }
}

}  // namespace
}  // namespace carillon

int main(int argc, char** argv) {
  return carillon::mpi_main("hosts_benchmark", argc, argv, [&](const carillon::Mpi& mpi) {
    const int iterations = argc > 1 ? std::atoi(argv[1]) : 15;
    if (iterations < 1) carillon::fail(carillon::ExitCode::usage, "usage: hosts_benchmark [ITERATIONS]");
    for (const std::size_t count : {397'510, 1'068'298, 11'173'962}) carillon::measure(mpi, count, iterations);
    return carillon::ExitCode::done;
  });
}
