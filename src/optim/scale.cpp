#include "src/optim/scale.h"

#include "carillon/core/error.h"
#include "carillon/core/parallel.h"
#include "src/core/has_cuda.h"

namespace carillon {

void enqueue_scale(std::span<float> values, float factor, Device& device) {
  const ScaleElement scale{values.data(), factor};
  if (device.kind() == DeviceKind::cpu) {
    return parallel_ranges(values.size(), elementwise_grain, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) scale(static_cast<std::int64_t>(i));
    });
  }
  if constexpr (has_cuda) return enqueue_scale_cuda(scale, values.size(), device.stream());
  fail(ExitCode::failed, "device {} requires a CUDA build", device.name());
}

}  // namespace carillon
