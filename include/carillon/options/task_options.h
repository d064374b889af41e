// TaskOptions: how the task uses each target, and the score that ends a training.
#pragma once

namespace carillon {

struct TaskOptions {
  double label_smoothing = 0.0;   ///< part of each label, 0 to 1, that is spread evenly over all classes
  double stop_at_accuracy = 0.0;  ///< accuracy at which an evaluation ends the run; 0: disabled
};

}  // namespace carillon
