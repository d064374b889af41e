#include <algorithm>

#include "carillon/cli/program_spec.h"
#include "carillon/core/error.h"
#include "carillon/models/networks.h"
#include "src/data/decode/dataset_info.h"
#include "src/onnx/onnx.h"
#include "src/tasks/classification.h"
#include "src/tasks/multilabel.h"
#include "src/tasks/regression.h"

namespace carillon {
namespace {

/// The rule of the reference program: an epoch always counts as 60000 records, even if the number of records or ranks
/// differs.
std::int64_t mnist_decay_steps(std::int64_t batch_size, int /*rank_count*/) {
  return std::max<std::int64_t>(1, 60000 / batch_size);
}

/// Returns int(batches per epoch / towers * 350 epochs), as in the newest version of the tutorial.
std::int64_t cifar10_decay_steps(std::int64_t batch_size, int rank_count) {
  const double steps = 50000.0 / static_cast<double>(batch_size) / rank_count * 350.0;
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(steps));
}

Task regression_of(const RecordSchema& schema, const TaskOptions& options) {
  RegressionSettings settings{.numbers = schema.scales, .huber_delta = static_cast<float>(options.huber_delta)};
  settings.numbers.resize(static_cast<std::size_t>(schema.class_count));
  switch (options.regression_loss) {
    case RegressionLoss::squared:
      settings.loss = MeanLossKind::squared_error;
      break;
    case RegressionLoss::absolute:
      settings.loss = MeanLossKind::absolute_error;
      break;
    case RegressionLoss::huber:
      settings.loss = MeanLossKind::huber;
      break;
  }
  return regression_task(settings);
}

/// Returns the number of steps of 30 epochs of ImageNet. Source: Goyal and others, "Accurate, large minibatch SGD",
/// 2017.
std::int64_t imagenet_decay_steps(std::int64_t batch_size, int rank_count) {
  return std::max<std::int64_t>(1, 30 * 1281167 / (batch_size * rank_count));
}

}  // namespace

std::vector<std::string> network_names(const ProgramSpec& program_spec) {
  std::vector<std::string> names;
  for (const NamedNetwork& network : program_spec.networks) names.push_back(network.name);
  return names;
}

MakeNetwork network_named(const ProgramSpec& program_spec, const std::string& name) {
  if (is_onnx_file(name)) return onnx_network(name);
  const auto found = std::ranges::find(program_spec.networks, name, &NamedNetwork::name);
  check(found != program_spec.networks.end(), "the program has no such network");
  return found->make;
}

Task task_of(const ProgramSpec& program_spec, const RecordSchema& schema, const TaskOptions& options) {
  if (program_spec.has_own_task()) return program_spec.make_task(schema, options);
  if (schema.target == TargetKind::labels) return multilabel_task(schema.class_count);
  if (schema.target == TargetKind::numbers) return regression_of(schema, options);
  return classification_task({.classes = schema.class_count,
                              .label_smoothing = static_cast<float>(options.label_smoothing),
                              .focal_gamma = static_cast<float>(options.focal_gamma),
                              .balances_weights = options.balances_weights(),
                              .class_weights = options.weights_of_file});
}

ProgramSpec mnist_program() {
  return {.data_set = "MNIST",
          .networks = {{"mnist", mnist_network}, {"lenet", lenet_network}, {"vgg7", vgg7_network}},
          .defaults = {.data = {.files = {"data/mnist/train-*"},
                                .record_form = {.make_decoder = grey_records,
                                                .schema = {.keys = {.image = "image_raw", .label = "label"},
                                                           .image_shape = {.height = 28, .width = 28, .channels = 1},
                                                           .class_count = 10}},
                                .batch_size = 100},
                       .optimizer = {.max_steps = 1000,
                                     .regularization = 0.0001,
                                     .update = {.moving_average_decay = 0.99},
                                     .schedule = {.learning_rate = 0.001, .learning_rate_decay = 0.99}},
                       .checkpoint = {.train_dir = "runs/mnist"},
                       .logging = {.summary_every = 10, .summarize_start = false}},
          .distorts = false,
          .decay_steps = mnist_decay_steps};
}

ProgramSpec cifar10_program() {
  return {.data_set = "CIFAR-10",
          .networks = {{"cifar10", cifar10_network},
                       {"resnet9", resnet9_network},
                       {"resnet18_cifar", resnet18_cifar_network},
                       {"resnet50", resnet50_network},
                       {"airbench94", airbench94_network},
                       {"airbench96", airbench96_network},
                       {"vit_tiny_patch4_32", vit_tiny_patch4_32_network}},
          .defaults = {.data = {.files = {"data/cifar10/train-*"},
                                .record_form = {.make_decoder = planar_records,
                                                .schema = {.keys = {.image = "image", .label = "label"},
                                                           .image_shape = {.height = 32, .width = 32, .channels = 3},
                                                           .class_count = 10}},
                                .batch_size = 128},
                       .optimizer = {.max_steps = 1000000,
                                     .regularization = 0.004,
                                     .update = {.moving_average_decay = 0.9999},
                                     .schedule = {.learning_rate = 0.1, .learning_rate_decay = 0.1, .staircase = true}},
                       .checkpoint = {.train_dir = "runs/cifar10"},
                       .logging = {.summary_every = 100, .summary_style = SummaryStyle::layers}},
          .class_names = {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"},
          .distorts = true,
          .fast_network = "airbench94",
          .decay_steps = cifar10_decay_steps};
}

ProgramSpec image_program() {
  return {.data_set = "pictures",
          .networks = {{"resnet50", resnet50_network},
                       {"resnet18", resnet18_network},
                       {"airbench94", airbench94_network},
                       {"airbench96", airbench96_network},
                       {"resnet9", resnet9_network},
                       {"resnet18_cifar", resnet18_cifar_network},
                       {"resnet34", resnet34_network},
                       {"resnet101", resnet101_network},
                       {"resnet152", resnet152_network},
                       {"vit_tiny_patch16_224", vit_tiny_patch16_224_network},
                       {"vit_small_patch16_224", vit_small_patch16_224_network},
                       {"vit_base_patch16_224", vit_base_patch16_224_network},
                       {"vit_tiny_patch4_32", vit_tiny_patch4_32_network},
                       {"convnext_tiny", convnext_tiny_network},
                       {"convnext_small", convnext_small_network},
                       {"convnext_base", convnext_base_network}},
          .defaults = {.data = {.files = {"data/images/train-*"},
                                .record_form = {.schema = {.keys = DatasetInfo{}.keys,
                                                           .image_shape = {.height = 224, .width = 224, .channels = 3},
                                                           .class_count = 1000}},
                                .evaluation_batch = 48,
                                .batch_size = 32},
                       .optimizer = {.max_steps = 10000,
                                     .regularization = 0.0001,
                                     .update = {.rule = "nesterov", .moving_average_decay = 0.0, .momentum = 0.9},
                                     .schedule = {.kind = ScheduleKind::cosine, .learning_rate = 0.0125}},
                       .device = {.precision = std::nullopt},
                       .checkpoint = {.train_dir = "runs/images"},
                       .logging = {.summary_every = 0, .as_reference = false}},
          .evaluation_split = "validation-",
          .of_pictures = true,
          .distorts = true,
          .fast_network = "airbench94",
          .fast_image_size = 32,
          .decay_steps = imagenet_decay_steps};
}

}  // namespace carillon
