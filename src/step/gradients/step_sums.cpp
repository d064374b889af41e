#include "src/step/gradients/step_sums.h"

#include "carillon/core/error.h"
#include "carillon/graph/parameters.h"

namespace carillon {

void write_step_sums(const Device& device, const Tensor& loss, const StepInputs& inputs, std::span<float> sums) {
  check(device.kind() == DeviceKind::cpu, "a GPU's loss does not write the step sums");
  sums[loss_sum] = loss.floats()[0];
  sums[sync_sum] = inputs.request_sync ? 1.0f : 0.0f;
}

}  // namespace carillon
