// step_sums: what a step hands to the towers' averaging beside its gradients.
//
//   sums[cross_entropy_sum] = loss        sums: [step_sum_count] (graph/parameters.h)
//   sums[stop_sum] = header.stop          of the step in hand (graph/step_table.h)
#pragma once

#include "carillon/device/device.h"
#include "carillon/graph/step_table.h"

namespace carillon {

/// Enqueues it on a GPU. `loss` and `sums` are in its memory.
void enqueue_step_sums_cuda(const float* loss, const StepTable& table, float* sums, Stream& stream);

}  // namespace carillon
