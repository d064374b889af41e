// Multi-label classification: the task that answers n yes-no questions for each sample.
//
//   target   uint8 [n], 1: the label applies, 0: it does not
//   output   n logits; sigma(logit) is the probability of the label
//   loss     binary cross-entropy with logits, mean over batch and labels (kernels/mean_loss)
//   metric   src/tasks/multilabel_metric.h
//   score    mean_average_precision
#pragma once

#include <cstdint>

#include "carillon/tasks/task.h"

namespace carillon {

/// Errors: failed (`labels` is not positive).
Task multilabel_task(std::int64_t labels);

}  // namespace carillon
