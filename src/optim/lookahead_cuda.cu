#include "kernels/shared/launch.cuh"
#include "src/optim/lookahead_kernels.h"

namespace carillon {

void enqueue_lookahead_cuda(const LookAheadElement& kernel, std::size_t count, Stream& stream) {
  launch(ForEachElement{kernel, static_cast<std::int64_t>(count)}, stream);
}

}  // namespace carillon
