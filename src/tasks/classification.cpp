#include "src/tasks/classification.h"

#include <fmt/format.h>

#include <cstring>

#include "carillon/core/error.h"
#include "kernels/softmax_cross_entropy/softmax_cross_entropy.h"
#include "src/tasks/class_scores_metric.h"
#include "src/tasks/classification_metric.h"
#include "src/tasks/cross_entropy_metric.h"

namespace carillon {

Task classification_task(const ClassificationSettings& settings) {
  check(settings.classes > 0, "a classification task needs at least one class");
  constexpr const char* loss_name = "cross_entropy";
  return {.target = {.type = DType::i32, .shape = {}},
          .outputs = settings.classes,
          .loss =
              [settings](Graph& graph, const LossInputs& inputs) {
                return softmax_cross_entropy(graph, loss_name, inputs.output, inputs.target,
                                             {.label_smoothing = settings.label_smoothing, .mixing = inputs.mixing});
              },
          .loss_name = loss_name,
          .describe_target =
              [](std::span<const std::byte> target) {
                std::int32_t label = 0;
                std::memcpy(&label, target.data(), sizeof label);
                return fmt::format("label {}", label);
              },
          .make_metric =
              [classes = static_cast<std::size_t>(settings.classes)] {
                return std::make_unique<ClassScoresMetric>(
                    classes, std::make_unique<CrossEntropyMetric>(std::make_unique<AccuracyMetric>()));
              },
          .score = "accuracy"};
}

}  // namespace carillon
