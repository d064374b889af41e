// mnist_train: trains the reference's MNIST network.
//
//   mpirun -np 4 mnist_train --data 'data/mnist/train-*' --train-dir runs/mnist
//   mnist_train --config jobs/recipes/mnist_fast.cfg --eval-data 'data/mnist/test-*'
#include <algorithm>

#include "carillon/train/app.h"
#include "carillon/train/trainer.h"

namespace {

using namespace carillon;

ExitCode train(int argc, char** argv, const Mpi& mpi) {
  TrainOptions options;
  options.model = "mnist";
  options.data = {"data/mnist/train-*"};
  options.train_dir = "runs/mnist";
  OptionSet set(
      "Trains the MNIST network on one tower per rank: mpirun -np N mnist_train --data FILES --train-dir DIR");
  declare(set, options);
  if (!parse_options(set, argc, argv, mpi)) return ExitCode::done;
  mpi.together([&] { check_combinations(options); });
  // As the reference divides: 60000 records, whatever the record and tower counts are.
  if (options.decay_steps == 0) options.decay_steps = std::max<std::int64_t>(1, 60000 / options.batch_size);

  const CpuShare cpu = take_cpu_share(mpi, static_cast<int>(options.threads));
  std::unique_ptr<Device> device;
  mpi.together([&] { device = open_device(options.device, mpi.local_rank(), cpu.thread_count); });
  const std::unique_ptr<Communicator> communicator = make_communicator(mpi, *device);
  nlohmann::json values = set.values();
  values["towers"] = mpi.size();
  return Trainer(options, values, mpi, *device, *communicator, cpu).run();
}

}  // namespace

int main(int argc, char** argv) {
  return carillon::run_app("mnist_train", argc, argv, [&](const Mpi& mpi) { return train(argc, argv, mpi); });
}
