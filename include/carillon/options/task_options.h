// TaskOptions: the task of a training, how it uses each target, and the score that ends the training.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "carillon/tasks/task.h"

namespace carillon {

/// The loss of a regression (src/tasks/regression.h).
enum class RegressionLoss { squared, absolute, huber };

struct TaskOptions {
  Task value = {};               ///< not an option: the program sets it from the options and the records
  double label_smoothing = 0.0;  ///< part of each label, 0 to 1, that is spread evenly over all classes
  RegressionLoss regression_loss = RegressionLoss::squared;
  double huber_delta = 1.0;  ///< error from which a huber loss is linear, in deviations of the targets
  /// Weights of the classes in the loss: "none", "balanced", or the path of a CSV file (src/tasks/class_weights.h).
  std::string class_weights = "none";
  std::vector<double> weights_of_file = {};  ///< not an option: the weights in that file, by class; empty: no file
  double focal_gamma = 0.0;                  ///< exponent of focal loss; 0: disabled
  /// Evaluations in a row without a better score after which the run ends; 0: disabled. Only evaluations that
  /// DataOptions::eval_every asks for count.
  std::int64_t patience = 0;
  double stop_at_accuracy = 0.0;  ///< accuracy at which an evaluation ends the run; 0: disabled

  bool weighs_classes() const { return class_weights != "none"; }
  bool balances_weights() const { return class_weights == "balanced"; }
  bool has_weight_file() const { return weighs_classes() && !balances_weights(); }

  /// The score at which an evaluation ends the run, if there is one.
  std::optional<double> target_score() const {
    return stop_at_accuracy > 0.0 ? std::optional(stop_at_accuracy) : std::nullopt;
  }
};

}  // namespace carillon
