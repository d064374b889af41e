#include "kernels/shared/launch.cuh"
#include "src/optim/scale.h"

namespace carillon {

void enqueue_scale_cuda(const ScaleElement& kernel, std::size_t count, Stream& stream) {
  launch(ForEachElement{kernel, static_cast<std::int64_t>(count)}, stream);
}

}  // namespace carillon
