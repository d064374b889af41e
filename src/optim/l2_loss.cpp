#include "src/optim/l2_loss.h"

#include "carillon/core/parallel.h"

namespace carillon {

CARILLON_SIMD double sum_of_squares(const float* values, std::size_t count) {
  constexpr std::size_t lanes = 16;  // independent sums: a fixed order that still vectorises
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

double l2_loss(const ParameterStore& parameters) {
  double loss = 0.0;
  for (std::size_t i = 0; i < parameters.specs().size(); ++i) {
    const double factor = parameters.specs()[i].l2_factor;
    const std::span<const float> values = parameters.value(static_cast<int>(i)).floats();
    if (factor != 0.0) loss += 0.5 * factor * sum_of_squares(values.data(), values.size());
  }
  return loss;
}

}  // namespace carillon
