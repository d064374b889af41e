#include "src/report/learning_curves.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "carillon/core/error.h"
#include "src/core/lines_from_end.h"

namespace carillon {
namespace {

std::optional<double> number_in(const nlohmann::json& object, std::string_view name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

void add(const nlohmann::json& line, LearningCurves& curves) {
  const std::optional<double> step = number_in(line, "step");
  if (!step) return;
  LearningCurves::Evaluation evaluation{.step = static_cast<std::int64_t>(*step)};
  bool is_evaluation = false;
  for (std::size_t i = 0; i < evaluation.scores.size(); ++i) {
    evaluation.scores[i] = number_in(line, LearningCurves::columns[i].field);
    is_evaluation = is_evaluation || evaluation.scores[i];
  }
  if (is_evaluation) curves.evaluations.push_back(evaluation);
  const std::optional<double> task = number_in(line, "cross_entropy"), total = number_in(line, "loss"),
                              rate = number_in(line, "learning_rate");
  if (task || total) curves.loss.push_back({*step, task ? *task : *total});
  if (rate) curves.learning_rate.push_back({*step, *rate});
}

}  // namespace

std::vector<CurvePoint> LearningCurves::of_column(std::size_t column) const {
  std::vector<CurvePoint> points;
  for (const Evaluation& evaluation : evaluations) {
    const std::optional<double>& score = evaluation.scores[column];
    if (score) points.push_back({static_cast<double>(evaluation.step), *score});
  }
  return points;
}

LearningCurves read_learning_curves(const std::filesystem::path& train_dir) {
  LearningCurves curves;
  try {
    LinesFromEnd lines(train_dir / "metrics.jsonl");
    while (const auto line = lines.next()) {
      const nlohmann::json json = nlohmann::json::parse(line->text, nullptr, false);
      if (json.is_object()) add(json, curves);
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
