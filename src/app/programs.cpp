// The programs there are, and how one trains.
#include <algorithm>
#include <filesystem>

#include "carillon/app/app.h"
#include "carillon/app/program.h"
#include "carillon/run/stop_signal.h"
#include "carillon/run/trainer.h"

namespace carillon {
namespace {

/// As the reference divides: 60000 records, whatever the record and tower counts are.
std::int64_t mnist_decay_steps(std::int64_t batch_size, int /*tower_count*/) {
  return std::max<std::int64_t>(1, 60000 / batch_size);
}

/// int(batches per epoch / towers * 350 epochs), the tutorial's newest form.
std::int64_t cifar10_decay_steps(std::int64_t batch_size, int tower_count) {
  const double steps = 50000.0 / static_cast<double>(batch_size) / tower_count * 350.0;
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(steps));
}

}  // namespace

const Program& mnist_program() {
  static const Program program{.data_set = "MNIST",
                               .models = {"mnist", "lenet"},
                               .defaults = {.data = {"data/mnist/train-*"},
                                            .train_dir = "runs/mnist",
                                            .max_steps = 1000,
                                            .batch_size = 100,
                                            .learning_rate = 0.001,
                                            .learning_rate_decay = 0.99,
                                            .staircase = false,
                                            .regularization = 0.0001,
                                            .moving_average_decay = 0.99,
                                            .summary_every = 10},
                               .distorts = false,
                               .decay_steps = mnist_decay_steps};
  return program;
}

const Program& cifar10_program() {
  static const Program program{.data_set = "CIFAR-10",
                               .models = {"cifar10"},
                               .defaults = {.data = {"data/cifar10/train-*"},
                                            .train_dir = "runs/cifar10",
                                            .max_steps = 1000000,
                                            .batch_size = 128,
                                            .learning_rate = 0.1,
                                            .learning_rate_decay = 0.1,
                                            .staircase = true,
                                            .regularization = 0.004,
                                            .moving_average_decay = 0.9999,
                                            .summary_every = 100},
                               .distorts = true,
                               .decay_steps = cifar10_decay_steps};
  return program;
}

ExitCode train(const Program& program, int argc, char** argv, const Mpi& mpi) {
  TrainOptions options = program.defaults;
  options.model = program.models.front();
  OptionSet set(
      fmt::format("Trains a {} classifier, one tower per rank: mpirun -np N PROGRAM --data FILES --train-dir DIR",
                  program.data_set));
  declare(set, options);
  if (program.models.size() > 1) set.add("model", options.model, program.models, "network to train");
  if (program.distorts) {
    set.add("distort", options.distort, "distort the training images at random");
  } else {
    set.add("pixel-scale", options.pixel_scale, OptionSet::Interval::positive, "multiplies the pixels 0..255");
  }
  catch_stop_signals();
  if (!parse_options(set, argc, argv, mpi, {"threads"})) return ExitCode::done;
  mpi.run_on_all([&] { check_combinations(options); });
  if (options.decay_steps == 0) options.decay_steps = program.decay_steps(options.batch_size, mpi.size());

  const CpuShare cpu = take_cpu_share(mpi, static_cast<int>(options.threads));
  std::unique_ptr<Device> device;
  mpi.run_on_all([&] {
    device = open_device({options.device, arithmetic(options.precision), mpi.local_rank(), cpu.thread_count});
  });
  const std::unique_ptr<Communicator> communicator = make_communicator(mpi, *device, options.comm);
  nlohmann::json values = set.values();
  values["tower count"] = mpi.size();
  values.erase("threads");
  Trainer trainer(options, values, mpi, *device, *communicator, cpu);
  return abort_on_own_error(mpi, std::filesystem::path(argv[0]).filename().string(), [&] { return trainer.run(); });
}

}  // namespace carillon
