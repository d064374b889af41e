#include "src/tasks/regression.h"

#include <fmt/format.h>

#include <cstring>

#include "carillon/core/error.h"
#include "src/tasks/regression_metric.h"

namespace carillon {
namespace {

const char* name_of(MeanLossKind loss) {
  switch (loss) {
    case MeanLossKind::squared_error:
      return "squared_error";
    case MeanLossKind::absolute_error:
      return "absolute_error";
    case MeanLossKind::huber:
      return "huber";
    default:
      fail(ExitCode::failed, "a regression has the loss squared_error, absolute_error or huber");
  }
}

std::string describe(const std::vector<NumberScale>& numbers, std::span<const std::byte> target) {
  std::string text = "target";
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    float value = 0.0f;
    std::memcpy(&value, target.data() + i * sizeof value, sizeof value);
    text += fmt::format("{}{:g}", i == 0 ? " " : ", ", numbers[i].number(value));
  }
  return text;
}

}  // namespace

Task regression_task(const RegressionSettings& settings) {
  const auto count = static_cast<std::int64_t>(settings.numbers.size());
  check(count > 0, "a regression needs at least one number");
  const char* const loss_name = name_of(settings.loss);
  return {.target = {.type = DType::f32, .shape = {count}},
          .outputs = count,
          .loss =
              [settings, loss_name](Graph& graph, const LossInputs& inputs) {
                return mean_loss(graph, loss_name, inputs.output, inputs.target,
                                 {.kind = settings.loss, .delta = settings.huber_delta, .mixing = inputs.mixing});
              },
          .loss_name = loss_name,
          .describe_target =
              [numbers = settings.numbers](std::span<const std::byte> target) { return describe(numbers, target); },
          .make_metric = [numbers = settings.numbers] { return std::make_unique<RegressionMetric>(numbers); },
          .score = "r2"};
}

}  // namespace carillon
