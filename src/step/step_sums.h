// step_sums: what a step hands to the towers' averaging beside its gradients.
//
//   sums[cross_entropy_sum] = loss                sums: [step_sum_count] (graph/parameters.h)
//   sums[pause_sum] = 1 if this rank asks for a pause, else 0
#pragma once

#include "carillon/device/device.h"
#include "carillon/graph/step_inputs.h"

namespace carillon {

/// Enqueues it, for the step in hand. `loss`, a scalar, and `sums` lie in the device's memory.
void enqueue_step_sums(Device& device, const Tensor& loss, const StepInputs& inputs, std::span<float> sums);

/// The same on a GPU; step_sums_cuda.cu, in builds with CUDA.
void enqueue_step_sums_cuda(const float* loss, const StepTable& table, float* sums, Stream& stream);

}  // namespace carillon
