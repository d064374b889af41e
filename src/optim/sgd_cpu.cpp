#include "carillon/core/parallel.h"
#include "src/optim/sgd.h"

namespace carillon {
namespace {

CARILLON_SIMD void update_range(const SgdParams& params, const float* __restrict gradient, float* __restrict value,
                                float* __restrict average, std::size_t count) {
  const SgdParams p = params;
  for (std::size_t i = 0; i < count; ++i) sgd_element(p, gradient[i], value[i], average[i]);
}

CARILLON_SIMD double squares_of_range(const float* values, std::size_t count) {
  constexpr std::size_t lanes = 16;  // independent sums, so that the order is fixed and yet vectorises
  double sums[lanes] = {};
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const double value = values[i + lane];
      sums[lane] += value * value;
    }
  }
  double total = 0.0;
  for (; i < count; ++i) total += static_cast<double>(values[i]) * values[i];
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace

void sgd_update_cpu(const SgdParams& params, std::span<const float> gradient, std::span<float> value,
                    std::span<float> average) {
  parallel_ranges(value.size(), 16384, [&](std::size_t begin, std::size_t end) {
    update_range(params, gradient.data() + begin, value.data() + begin, average.data() + begin, end - begin);
  });
}

double sum_of_squares_cpu(std::span<const float> values) { return squares_of_range(values.data(), values.size()); }

}  // namespace carillon
