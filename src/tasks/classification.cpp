#include "src/tasks/classification.h"

#include <fmt/format.h>

#include <utility>

#include "carillon/core/error.h"
#include "kernels/softmax_cross_entropy/softmax_cross_entropy.h"
#include "src/tasks/class_counts.h"
#include "src/tasks/class_weights.h"
#include "src/tasks/classification_metric.h"

namespace carillon {
namespace {

constexpr const char* loss_name = "cross_entropy";

std::int64_t label_of(std::span<const std::byte> target) { return static_cast<std::int64_t>(label_at(target, 0)); }

/// `weights`: [classes]; empty: 1.
LossFunction cross_entropy(const ClassificationSettings& settings, std::vector<float> weights) {
  return [smoothing = settings.label_smoothing, gamma = settings.focal_gamma, weights = std::move(weights)](
             Graph& graph, const LossInputs& inputs) {
    return softmax_cross_entropy(
        graph, loss_name, inputs.output, inputs.target,
        {.label_smoothing = smoothing, .mixing = inputs.mixing, .class_weights = weights, .focal_gamma = gamma});
  };
}

/// The loss of a training on these records.
LossFunction weighted_cross_entropy(const ClassificationSettings& settings, std::span<const std::byte> targets) {
  const std::vector<std::int64_t> counts = class_counts(targets, settings.classes);
  return cross_entropy(settings, settings.balances_weights ? balanced_class_weights(counts)
                                                           : scaled_class_weights(settings.class_weights, counts));
}

}  // namespace

Task classification_task(const ClassificationSettings& settings) {
  check(settings.classes > 0, "a classification task needs at least one class");
  const std::size_t given = settings.class_weights.size();
  check(given == 0 || given == static_cast<std::size_t>(settings.classes), "each class requires a weight");
  Task task{
      .target = {.type = DType::i32, .shape = {}},
      .outputs = settings.classes,
      .loss = cross_entropy(settings, {}),
      .group_of = label_of,
      .loss_name = loss_name,
      .describe_target = [](std::span<const std::byte> target) { return fmt::format("label {}", label_of(target)); },
      .make_metric = [classes = static_cast<std::size_t>(
                          settings.classes)] { return std::make_unique<ClassificationMetric>(classes); },
      .score = "accuracy"};
  if (settings.balances_weights || given > 0) {
    task.loss_of_records = [settings](std::span<const std::byte> targets) {
      return weighted_cross_entropy(settings, targets);
    };
  }
  return task;
}

}  // namespace carillon
