// averaging_benchmark: microseconds of averaging gradients between ranks of one host, with and without the update,
// beside MPI_Allreduce.
//
//   mpirun -np 2 averaging_benchmark [ITERATIONS]        200
//
// The gradients of the MNIST and the CIFAR-10 network, 1.59 and 4.27 MB. Before each operation every rank reads its
// variables and writes its gradients, as backward does, and all meet; an operation is over when it is on the last rank.
// All of them in turn, an iteration after the other. Prints the fastest and the median.
#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "src/app/mpi_main.h"
#include "src/comm/allreduce/communicator.h"
#include "src/device/cpu_device.h"
#include "src/optim/optimizer.h"
#include "src/step/gradients/reducer.h"
#include "src/step/update/sharded_update.h"
#include "tests/benchmarks/interleaved.h"

namespace carillon {
namespace {

/// One network's gradients on this rank, with variables to update from them.
class Gradients {
 public:
  Gradients(const Mpi& mpi, std::int64_t count)
      : communicator_(make_communicator(mpi, device_)),
        layout_(specs_of(count)),
        own_(communicator_->allocate(gradient_bytes(layout_) + value_bytes(layout_))),
        parameters_(specs_of(count), device_,
                    {.gradients = view(own_, 0, gradient_bytes(layout_)),
                     .values = view(own_, gradient_bytes(layout_), value_bytes(layout_)),
                     .slots = communicator_->shared_host_memory()->allocate(value_bytes(layout_))},
                    optimizer_slots(settings_)),
        private_(specs_of(count), device_, {.gradients = view(own_, 0, gradient_bytes(layout_))},
                 optimizer_slots(settings_)),
        optimizer_(make_optimizer(settings_, parameters_, device_, inputs_)),
        private_optimizer_(make_optimizer(settings_, private_, device_, inputs_)),
        reducer_(*communicator_, parameters_, std::size_t{4} << 20),
        update_(*communicator_->shared_host_memory(), communicator_->size(), parameters_, *optimizer_) {
    inputs_.scalars = step_scalars(settings_, 0);
  }

  /// Leaves the caches as a backward pass does.
  void compute() {
    static_cast<void>(optimizer_->l2_loss());
    std::ranges::fill(parameters_.gradients_and_sums(), 1e-3f);
  }
  void average() {
    reducer_.begin(device_.stream());
    reducer_.add(0, device_.stream());
    reducer_.finalize(device_.stream());
  }
  void average_and_update() {
    update_.begin({parameters_.step_sums().data(), {}});
    update_.add(0);
    update_.finish();
  }
  /// Of all parameters, on every rank, as on several hosts.
  void update() { private_optimizer_->apply({parameters_.step_sums().data(), {}}, device_.stream()); }
  void all_reduce() const {
    const std::span<float> values = parameters_.gradients_and_sums();
    MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }

 private:
  static std::vector<ParameterSpec> specs_of(std::int64_t count) { return {{"gradients", {count}, {}, 1e-4f}}; }
  static Buffer view(const Buffer& of, std::size_t offset, std::size_t bytes) {
    return {static_cast<std::byte*>(of.data()) + offset, bytes, [](void*) {}};
  }

  CpuDevice device_{1};
  std::unique_ptr<Communicator> communicator_;
  OptimizerSettings settings_;
  ParameterLayout layout_;
  Buffer own_;
  ParameterStore parameters_, private_;
  StepInputs inputs_;
  std::unique_ptr<Optimizer> optimizer_, private_optimizer_;
  Reducer reducer_;
  ShardedUpdate update_;
};

void measure(const Mpi& mpi, std::int64_t count, int iterations) {
  Gradients gradients(mpi, count);
  const auto update_after = [&](const auto& average) {
    return [&, average] {
      average();
      gradients.update();
    };
  };
  const auto average = [&] { gradients.average(); };
  const auto all_reduce = [&] { gradients.all_reduce(); };
  std::vector<Operation> operations{{"averaging", average},
                                    {"averaging and update", [&] { gradients.average_and_update(); }},
                                    {"averaging, then update", update_after(average)},
                                    {"MPI_Allreduce", all_reduce},
                                    {"MPI_Allreduce, then update", update_after(all_reduce)}};
  measure_in_turn(operations, 10, iterations, [&] { gradients.compute(); });
  if (mpi.rank() != 0) return;
  for (const Operation& operation : operations) {
    fmt::print("{:<27} {:>5.2f} MB {:>9.1f} us   (median {:.1f})\n", operation.name,
               static_cast<double>(count) * sizeof(float) / 1e6, operation.fastest() * 1e6, operation.median() * 1e6);
  }
}

}  // namespace
}  // namespace carillon

int main(int argc, char** argv) {
  return carillon::mpi_main("averaging_benchmark", argc, argv, [&](const carillon::Mpi& mpi) {
    const int iterations = argc > 1 ? std::atoi(argv[1]) : 200;
    if (iterations < 1) carillon::fail(carillon::ExitCode::usage, "usage: averaging_benchmark [ITERATIONS]");
    if (mpi.local_size() != mpi.size()) carillon::fail(carillon::ExitCode::usage, "the ranks are to be on one host");
    for (const std::int64_t count : {397510, 1068298}) carillon::measure(mpi, count, iterations);
    return carillon::ExitCode::done;
  });
}
