#include "src/step/step_sums.h"

#include "carillon/core/error.h"
#include "carillon/core/has_cuda.h"
#include "carillon/graph/parameters.h"

namespace carillon {

void enqueue_step_sums(Device& device, const Tensor& loss, const StepInputs& inputs, std::span<float> sums) {
  if (device.kind() == DeviceKind::cpu) {
    sums[cross_entropy_sum] = loss.floats()[0];
    sums[pause_sum] = inputs.request_pause ? 1.0f : 0.0f;
    return;
  }
  if constexpr (has_cuda) {
    return enqueue_step_sums_cuda(loss.floats().data(), inputs.table, sums.data(), device.stream());
  }
  fail(ExitCode::failed, "this build has no step sums for device {}", device.name());
}

}  // namespace carillon
