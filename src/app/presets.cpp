#include <algorithm>

#include "carillon/app/preset.h"

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

Preset mnist_preset() {
  return {.data_set = "MNIST",
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
                       .summary_every = 10,
                       .summary_style = SummaryStyle::variables},
          .distorts = false,
          .decay_steps = mnist_decay_steps};
}

Preset cifar10_preset() {
  return {.data_set = "CIFAR-10",
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
                       .summary_every = 100,
                       .summary_style = SummaryStyle::layers},
          .distorts = true,
          .decay_steps = cifar10_decay_steps};
}

}  // namespace carillon
