// TaskOptions: the task of a training, how it uses each target, and the score that ends the training.
#pragma once

#include <optional>

#include "carillon/tasks/task.h"

namespace carillon {

/// The loss of a regression (src/tasks/regression.h).
enum class RegressionLoss { squared, absolute, huber };

struct TaskOptions {
  Task value = {};               ///< not an option: the program sets it from the options and the records
  double label_smoothing = 0.0;  ///< part of each label, 0 to 1, that is spread evenly over all classes
  RegressionLoss regression_loss = RegressionLoss::squared;
  double huber_delta = 1.0;       ///< error from which a huber loss is linear, in deviations of the targets
  double stop_at_accuracy = 0.0;  ///< accuracy at which an evaluation ends the run; 0: disabled

  /// The score at which an evaluation ends the run, if there is one.
  std::optional<double> target_score() const {
    return stop_at_accuracy > 0.0 ? std::optional(stop_at_accuracy) : std::nullopt;
  }
};

}  // namespace carillon
