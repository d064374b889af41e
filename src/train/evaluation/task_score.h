// TaskScore: the score of a task, by which a run keeps its best checkpoint and ends early.
#pragma once

#include <optional>

#include "carillon/tasks/task.h"

namespace carillon {

class TaskScore {
 public:
  /// `target`: the score that ends the run. Errors: failed (the task's metric has no such score).
  explicit TaskScore(const Task& task, std::optional<double> target = std::nullopt);

  /// The task's score of a metric that the task made.
  Score of(const Metric& metric) const;
  /// A score with the same names and no samples.
  const Score& form() const { return form_; }
  /// False if they are equal, or if `score` is NaN. Any other score is better than NaN.
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

}  // namespace carillon
