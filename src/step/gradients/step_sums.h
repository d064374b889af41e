// step_sums: what a step hands to the towers' averaging beside its gradients.
//
//   sums[loss_sum] = loss                         sums: [step_sum_count] (graph/parameters.h)
//   sums[sync_sum] = 1 if this rank asks for a pause, else 0
//
// On a GPU the loss's op writes them (OpTensors::step_sums).
#pragma once

#include "carillon/device/device.h"
#include "carillon/graph/step_inputs.h"

namespace carillon {

/// For the step in hand of a CPU. `loss`: a scalar. Errors: failed (another device).
void write_step_sums(const Device& device, const Tensor& loss, const StepInputs& inputs, std::span<float> sums);

}  // namespace carillon
