// step_sums: values that a step averages over the ranks in addition to its gradients.
//
//   sums[loss_sum] = loss                         sums: [step_sum_count] (graph/parameters.h)
//   sums[sync_sum] = 1 if this rank requests a synchronisation, else 0
//
// On a GPU the op of the loss writes them (OpTensors::step_sums).
#pragma once

#include "carillon/device/device.h"
#include "carillon/graph/step_inputs.h"

namespace carillon {

/// Writes the sums of the current step on a CPU. `loss`: a scalar. Errors: failed (the device is not a CPU).
void write_step_sums(const Device& device, const Tensor& loss, const StepInputs& inputs, std::span<float> sums);

}  // namespace carillon
