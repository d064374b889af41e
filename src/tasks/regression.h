// Regression: the task that predicts k numbers for each sample.
//
//   target   float32 [k], standardised: (number - mean) / deviation
//   output   k numbers, standardised in the same way
//   loss     squared, absolute or Huber error, mean over batch and numbers (kernels/mean_loss)
//   metric   src/tasks/regression_metric.h, in the unit of the numbers
//   score    r2
#pragma once

#include <vector>

#include "carillon/core/sample.h"
#include "carillon/tasks/task.h"
#include "kernels/mean_loss/mean_loss.h"

namespace carillon {

struct RegressionSettings {
  std::vector<NumberScale> numbers;  ///< one for each number
  MeanLossKind loss = MeanLossKind::squared_error;
  float huber_delta = 1.0f;  ///< above 0, in deviations (huber)
};

/// Errors: failed (no numbers, or the loss is none of a regression).
Task regression_task(const RegressionSettings& settings);

}  // namespace carillon
