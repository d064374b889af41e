// TaskScore: the score of a task, by which a run keeps its best checkpoint and ends early. Patience: counts the
// evaluations since the best one.
#pragma once

#include <cstdint>
#include <optional>

#include "carillon/tasks/task.h"
#include "src/report/metrics.h"

namespace carillon {

class TaskScore {
 public:
  /// `target`: the score that ends the run. Errors: failed (the task's metric has no such score).
  explicit TaskScore(const Task& task, std::optional<double> target = std::nullopt);

  /// The task's score of a metric that the task made.
  Score of(const Metric& metric) const;
  /// A score with the same names and no samples.
  const Score& form() const { return form_; }
  /// Whether `score` is better than `than`. False if they are equal or if `score` is NaN. Any score except NaN is
  /// better than NaN.
  bool is_better(const Score& score, const Score& than) const;
  /// Whether there is a target, and the score is the target or better.
  bool reaches_target(const Score& score) const;
  bool has_target() const { return target_.has_value(); }

 private:
  std::string name_;
  bool higher_is_better_;
  std::optional<double> target_;
  Score form_;
};

/// Counts the evaluations of a run since the best evaluation, and decides when the run ends (--patience).
///
/// The state is a function of the scores in the order of the steps. Therefore a resumed run adds the logged evaluations
/// again and continues with the same count. All ranks add the same scores.
class Patience {
 public:
  /// `max_evaluations`: evaluations in a row without a better score after which the run ends; 0: never. `score`
  /// outlives this.
  Patience(const TaskScore& score, std::int64_t max_evaluations) : score_(&score), max_evaluations_(max_evaluations) {}

  /// Adds an evaluation. TaskScore::is_better decides whether it is the best so far; NaN never is. The first score that
  /// is not NaN is the best so far.
  void add(const StepScore& evaluation);
  bool is_over() const { return max_evaluations_ > 0 && since_best_ >= max_evaluations_; }
  /// The best evaluation; the first one if several are equal; nullopt if all scores are NaN.
  const std::optional<StepScore>& best() const { return best_; }

 private:
  const TaskScore* score_;
  std::int64_t max_evaluations_;
  std::int64_t since_best_ = 0;  ///< evaluations since the best one
  std::optional<StepScore> best_;
};

}  // namespace carillon
