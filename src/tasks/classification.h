// Classification: the task that assigns each sample to one of n classes.
//
//   target   int32 [], 0 .. n - 1
//   output   n logits
//   metric   src/tasks/classification_metric.h
//   loss     softmax cross-entropy (kernels/softmax_cross_entropy), named "cross_entropy", with optional class weights
//            (src/tasks/class_weights.h) and focal loss
//   groups   the classes
#pragma once

#include <cstdint>
#include <vector>

#include "carillon/tasks/task.h"

namespace carillon {

struct ClassificationSettings {
  std::int64_t classes = 0;
  float label_smoothing = 0.0f;            ///< share of each target that is spread over all classes, 0 to 1
  float focal_gamma = 0.0f;                ///< exponent of focal loss, at least 0
  bool balances_weights = false;           ///< class weights that balance the training records
  std::vector<double> class_weights = {};  ///< given class weights, [classes], instead; empty: none
};

/// Errors: failed (`classes` is not positive, or class_weights has another size).
Task classification_task(const ClassificationSettings& settings);

}  // namespace carillon
