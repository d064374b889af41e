#include "src/tasks/regression.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "carillon/core/error.h"

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

double RegressionMetric::predicted(std::size_t i, std::size_t column) const {
  return numbers_[column].number(samples_.outputs()[i * numbers_.size() + column]);
}

double RegressionMetric::target(std::size_t i, std::size_t column) const {
  float value = 0.0f;
  std::memcpy(&value, samples_.targets().data() + (i * numbers_.size() + column) * sizeof value, sizeof value);
  return numbers_[column].number(value);
}

NumberResult RegressionMetric::result_of(std::size_t column) const {
  const auto count = static_cast<double>(samples_.count());
  double sum = 0.0, absolute = 0.0, squared = 0.0, spread = 0.0;
  bool are_equal = true;  // equal numbers must have the deviation 0, but a rounded mean would make it nonzero
  for (std::size_t i = 0; i < samples_.count(); ++i) {
    sum += target(i, column);
    are_equal = are_equal && target(i, column) == target(0, column);
  }
  for (std::size_t i = 0; i < samples_.count(); ++i) {
    const double error = predicted(i, column) - target(i, column), distance = target(i, column) - sum / count;
    absolute += std::abs(error);
    squared += error * error;
    spread += distance * distance;
  }
  const double r2 = !are_equal ? 1.0 - squared / spread : squared > 0.0 ? 0.0 : 1.0;
  return {.mae = absolute / count,
          .rmse = std::sqrt(squared / count),
          .r2 = samples_.count() > 0 ? r2 : std::nan(""),
          .deviation = are_equal ? 0.0 : std::sqrt(spread / count)};
}

const std::vector<NumberResult>& RegressionMetric::numbers() const {
  if (!results_.empty()) return results_;
  for (std::size_t column = 0; column < numbers_.size(); ++column) results_.push_back(result_of(column));
  return results_;
}

double RegressionMetric::error(std::size_t i) const {
  double squared = 0.0;
  for (std::size_t column = 0; column < numbers_.size(); ++column) {
    const double deviation = numbers()[column].deviation;
    const double error = (predicted(i, column) - target(i, column)) / (deviation > 0.0 ? deviation : 1.0);
    squared += error * error;
  }
  return std::sqrt(squared / static_cast<double>(numbers_.size()));
}

NumberResult RegressionMetric::mean() const {
  NumberResult mean;
  const std::vector<NumberResult>& results = numbers();
  const auto count = static_cast<double>(results.size());
  for (const NumberResult& result : results) {
    mean.mae += result.mae / count;
    mean.rmse += result.rmse / count;
    mean.r2 += result.r2 / count;
  }
  return mean;
}

std::vector<Score> RegressionMetric::scores() const {
  const NumberResult result = mean();
  return {
      {.name = "r2", .value = result.r2}, {.name = "mae", .value = result.mae}, {.name = "rmse", .value = result.rmse}};
}

ScoreTable RegressionMetric::table() const {
  ScoreTable table{.columns = {"r2", "mae", "rmse"}, .rows = {}};
  for (const NumberResult& number : numbers()) table.rows.push_back({number.r2, number.mae, number.rmse});
  return table;
}

std::string RegressionMetric::text() const {
  return fmt::format("R2 = {:.4f} ({} records)", mean().r2, samples_.count());
}

std::vector<std::string> RegressionMetric::other_texts() const {
  const NumberResult result = mean();
  return {fmt::format("mean absolute error = {:.4g}", result.mae),
          fmt::format("root mean squared error = {:.4g}", result.rmse)};
}

}  // namespace carillon
