// averaging_benchmark: measures, in microseconds, how long the ranks of one host take to average gradients, with and
// without the update of the variables. Compares this time with the time of MPI_Allreduce.
//
//   mpirun -np 2 averaging_benchmark [ITERATIONS]        200
//
// Uses the gradients of the MNIST and the CIFAR-10 network, 1.59 and 4.27 MB. Before each operation, every rank reads
// its variables and writes its gradients, as the backward pass does, and then waits in a barrier. The time of an
// operation ends when the last rank has finished it. Each iteration runs all operations in turn. Prints the fastest and
// the median time.
#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "src/cli/launch/mpi_main.h"
#include "src/comm/allreduce/communicator.h"
#include "src/device/cpu_device.h"
#include "src/optim/optimizer.h"
#include "src/optim/update_factors.h"
#include "src/step/update/sharded_update.h"
#include "tests/benchmarks/interleaved.h"

namespace carillon {
namespace {

/// The gradients of a network on this rank, and the network's variables.
class Gradients {
 public:
  Gradients(const Mpi& mpi, std::int64_t count)
      : communicator_(make_communicator(mpi, device_)),
        graph_(graph_of(count)),
        update_({.graph = graph_,
                 .optimizer = settings_,
                 .device = device_,
                 .communicator = *communicator_,
                 .inputs = inputs_,
                 .bucket_bytes = std::size_t{4} << 20}),
        private_(graph_.parameters(), device_, {.gradients = view_of(update_.parameters().gradients_and_sums())},
                 optimizer_slots(settings_)),
        private_optimizer_(make_optimizer(settings_, private_, device_, inputs_)) {
    inputs_.scalars = step_scalars(settings_, 0);
  }

  /// Reads and writes the arrays that a backward pass reads and writes, so that the caches hold them.
  void compute() {
    static_cast<void>(l2_loss(update_.parameters()));
    std::ranges::fill(update_.parameters().gradients_and_sums(), 1e-3f);
  }
  void average() { average(MeanGradients::readable); }
  void average_and_update() { average(MeanGradients::update_only); }
  /// Updates all parameters on every rank, as in runs on several hosts.
  void update() { private_optimizer_->apply({private_.step_sums().data(), {}}, device_.stream()); }
  void all_reduce() const {
    const std::span<float> values = update_.parameters().gradients_and_sums();
    MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }

 private:
  static Graph graph_of(std::int64_t count) {
    Graph graph(1);
    graph.add_parameter({"gradients", {count}, {}, 1e-4f});
    return graph;
  }
  static Buffer view_of(std::span<float> values) {
    return {values.data(), values.size_bytes(), [](void*) {}};
  }

  void average(MeanGradients gradients) {
    update_.begin_step(gradients);
    update_.acquire(device_.stream());
    update_.gradient_complete(0, device_.stream());
    update_.enqueue_means();
  }

  CpuDevice device_{1};
  std::unique_ptr<Communicator> communicator_;
  OptimizerSettings settings_;
  StepInputs inputs_;
  Graph graph_;
  ShardedUpdate update_;
  ParameterStore private_;
  std::unique_ptr<Optimizer> private_optimizer_;
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
