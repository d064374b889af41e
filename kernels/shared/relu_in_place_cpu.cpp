#include "carillon/core/parallel.h"
#include "kernels/shared/relu_in_place.h"

namespace carillon {
namespace {

CARILLON_SIMD void clip(float* __restrict y, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) y[i] = y[i] < 0.0f ? 0.0f : y[i];
}

}  // namespace

void relu_in_place(const Tensor& y) {
  float* const values = y.floats().data();
  parallel_ranges(y.floats().size(), elementwise_grain,
                  [&](std::size_t begin, std::size_t end) { clip(values + begin, end - begin); });
}

}  // namespace carillon
