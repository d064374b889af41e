#include "src/tasks/multilabel.h"

#include <fmt/format.h>

#include "carillon/core/error.h"
#include "kernels/mean_loss/mean_loss.h"
#include "src/tasks/multilabel_metric.h"

namespace carillon {
namespace {

std::string describe(std::span<const std::byte> target) {
  std::string numbers;
  for (std::size_t i = 0; i < target.size(); ++i) {
    if (target[i] != std::byte{0}) numbers += fmt::format("{}{}", numbers.empty() ? "" : ", ", i);
  }
  return numbers.empty() ? "no labels" : "labels " + numbers;
}

}  // namespace

Task multilabel_task(std::int64_t labels) {
  check(labels > 0, "a multi-label task needs at least one label");
  constexpr const char* loss_name = "binary_cross_entropy";
  return {.target = {.type = DType::u8, .shape = {labels}},
          .outputs = labels,
          .loss =
              [](Graph& graph, const LossInputs& inputs) {
                return mean_loss(graph, loss_name, inputs.output, inputs.target,
                                 {.kind = MeanLossKind::sigmoid_cross_entropy, .mixing = inputs.mixing});
              },
          .loss_name = loss_name,
          .describe_target = describe,
          .make_metric = [labels] { return std::make_unique<MultilabelMetric>(static_cast<std::size_t>(labels)); },
          .score = "mean_average_precision"};
}

}  // namespace carillon
