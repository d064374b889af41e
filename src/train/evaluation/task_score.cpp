#include "src/train/evaluation/task_score.h"

#include <algorithm>
#include <cmath>

#include "carillon/core/error.h"

namespace carillon {

TaskScore::TaskScore(const Task& task, std::optional<double> target)
    : name_(task.score), higher_is_better_(task.higher_is_better), target_(target), form_(of(*task.make_metric())) {}

Score TaskScore::of(const Metric& metric) const {
  const std::vector<Score> scores = metric.scores();
  const auto found = std::ranges::find(scores, name_, &Score::name);
  if (found == scores.end()) fail(ExitCode::failed, "the task's metric has no score '{}'", name_);
  return *found;
}

bool TaskScore::is_better(const Score& score, const Score& than) const {
  if (std::isnan(than.value)) return !std::isnan(score.value);
  return higher_is_better_ ? score.value > than.value : score.value < than.value;
}

bool TaskScore::reaches_target(const Score& score) const {
  return has_target() && (higher_is_better_ ? score.value >= *target_ : score.value <= *target_);
}

void Patience::add(const StepScore& evaluation) {
  const double value = evaluation.score.value;
  const bool is_better = best_ ? score_->is_better(evaluation.score, best_->score) : !std::isnan(value);
  since_best_ = is_better ? 0 : since_best_ + 1;
  if (is_better) best_ = evaluation;
}

}  // namespace carillon
