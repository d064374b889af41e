#include "src/report/learning_curves.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "carillon/core/error.h"
#include "src/core/file_tools.h"
#include "src/report/metrics.h"

namespace carillon {
namespace {

std::optional<double> number_in(const nlohmann::json& object, std::string_view name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

/// Steps are whole and exact as a float64.
std::optional<std::int64_t> step_in(const nlohmann::json& object) {
  constexpr double most = 9007199254740992.0;  // 2^53
  const std::optional<double> step = number_in(object, "step");
  if (!step || !(*step >= 0.0 && *step <= most) || *step != std::floor(*step)) return std::nullopt;
  return static_cast<std::int64_t>(*step);
}

LearningCurves::Evaluation evaluation_in(const nlohmann::json& line, std::int64_t step) {
  LearningCurves::Evaluation evaluation{.step = step};
  for (const auto& [name, value] : line.items()) {
    if (!name.starts_with(evaluation_prefix) || !value.is_number()) continue;
    evaluation.scores[name.substr(evaluation_prefix.size())] = value.get<double>();
  }
  return evaluation;
}

/// The lines are read from the last to the first.
void add(const nlohmann::json& line, std::string_view loss_name, LearningCurves& curves) {
  const std::optional<std::int64_t> step = step_in(line);
  if (!step) return;
  LearningCurves::Evaluation evaluation = evaluation_in(line, *step);
  const bool is_repeated = !curves.evaluations.empty() && curves.evaluations.back().step <= *step;
  if (!evaluation.scores.empty() && !is_repeated) curves.evaluations.push_back(std::move(evaluation));
  const std::optional<double> task = number_in(line, loss_name), total = number_in(line, "loss"),
                              rate = number_in(line, "learning_rate");
  const auto at = static_cast<double>(*step);
  if (task || total) curves.loss.push_back({at, task ? *task : *total});
  if (rate) curves.learning_rate.push_back({at, *rate});
}

}  // namespace

std::vector<CurvePoint> LearningCurves::of_score(std::string_view logged_name) const {
  std::vector<CurvePoint> points;
  for (const Evaluation& evaluation : evaluations) {
    const auto score = evaluation.scores.find(logged_name);
    if (score != evaluation.scores.end()) points.push_back({static_cast<double>(evaluation.step), score->second});
  }
  return points;
}

LearningCurves read_learning_curves(const std::filesystem::path& train_dir, std::string_view loss_name) {
  LearningCurves curves;
  try {
    LinesFromEnd lines(train_dir / "metrics.jsonl");
    while (const auto line = lines.next()) {
      const nlohmann::json json = nlohmann::json::parse(line->text, nullptr, false);
      if (json.is_object()) add(json, loss_name, curves);
    }
  } catch (const Error&) {  // as if there were no file
    return {};
  }
  std::ranges::reverse(curves.loss);
  std::ranges::reverse(curves.learning_rate);
  std::ranges::reverse(curves.evaluations);
  return curves;
}

std::vector<CurvePoint> thinned(const std::vector<CurvePoint>& points, std::size_t count) {
  if (points.size() <= count) return points;
  std::vector<CurvePoint> means;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t begin = i * points.size() / count, end = (i + 1) * points.size() / count;
    CurvePoint sum;
    for (std::size_t at = begin; at < end; ++at) {
      sum.step += points[at].step;
      sum.value += points[at].value;
    }
    const auto number = static_cast<double>(end - begin);
    means.push_back({sum.step / number, sum.value / number});
  }
  return means;
}

}  // namespace carillon
