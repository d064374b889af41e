#include "kernels/shared/launch.cuh"
#include "src/step/step_sums.h"
#include "src/step/step_sums_kernels.h"

namespace carillon {

void enqueue_step_sums_cuda(const float* loss, const StepTable& table, float* sums, Stream& stream) {
  launch(StepSumsKernel{loss, table, sums}, stream);
}

}  // namespace carillon
