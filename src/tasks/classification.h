// Classification: to which one of n classes a sample belongs.
//
//   target   int32 [], from 0 to n - 1
//   output   n logits
//   metric   accuracy (src/tasks/classification_metric.h)
//   loss     softmax cross-entropy (kernels/softmax_cross_entropy), named "cross_entropy"
#pragma once

#include <cstdint>

#include "carillon/tasks/task.h"

namespace carillon {

struct ClassificationSettings {
  std::int64_t classes = 0;
  float label_smoothing = 0.0f;  ///< share of each target that is spread over all classes, from 0 to 1
};

/// Errors: failed (no class).
Task classification_task(const ClassificationSettings& settings);

}  // namespace carillon
