// Patience: counts the evaluations of a run since the best one, and tells when the run has to end (--patience).
//
// The state is a function of the scores in the order of the steps. So a resumed run adds the logged evaluations again,
// and continues the count exactly. All ranks add the same scores.
#pragma once

#include <cstdint>
#include <optional>

#include "src/report/metrics.h"
#include "src/train/evaluation/task_score.h"

namespace carillon {

class Patience {
 public:
  /// `max_evaluations`: evaluations in a row without a better score after which the run ends; 0: never. `score`
  /// outlives this.
  Patience(const TaskScore& score, std::int64_t max_evaluations) : score_(&score), max_evaluations_(max_evaluations) {}

  /// Adds an evaluation. It is better if TaskScore::is_better says so; NaN never is. The first score that is not NaN is
  /// the best so far.
  void add(const StepScore& evaluation);
  bool is_over() const { return max_evaluations_ > 0 && since_best_ >= max_evaluations_; }
  /// Evaluations since the best one.
  std::int64_t since_best() const { return since_best_; }
  /// The best evaluation, the first one of equals; none: there is no score other than NaN.
  const std::optional<StepScore>& best() const { return best_; }

 private:
  const TaskScore* score_;
  std::int64_t max_evaluations_;
  std::int64_t since_best_ = 0;
  std::optional<StepScore> best_;
};

}  // namespace carillon
