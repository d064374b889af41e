#include "kernels/shared/row_blocks_cpu.h"

#include "carillon/core/parallel.h"

namespace carillon {
namespace {

CARILLON_SIMD void add_to(const float* __restrict sums, std::size_t columns, float* __restrict to) {
  for (std::size_t c = 0; c < columns; ++c) to[c] += sums[c];
}

}  // namespace

void add_blocks(const float* sums, std::size_t count, std::size_t stride, const Tensor& to) {
  const std::span<float> totals = to.floats();
  std::copy_n(sums, totals.size(), totals.begin());
  for (std::size_t block = 1; block < count; ++block) add_to(sums + block * stride, totals.size(), totals.data());
}

}  // namespace carillon
