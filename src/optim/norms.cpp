#include "src/optim/norms.h"

#include <bit>

#include "carillon/core/parallel.h"

namespace carillon {
namespace {

/// sums[i] = factor * values[i] + gradients[i]
CARILLON_SIMD void add_l2(float factor, const float* __restrict values, const float* __restrict gradients,
                          std::size_t count, float* __restrict sums) {
  for (std::size_t i = 0; i < count; ++i) sums[i] = std::fma(factor, values[i], gradients[i]);
}

double tree_sum(std::span<const double> parts) {
  if (parts.empty()) return 0.0;
  if (parts.size() == 1) return parts[0];
  const std::size_t half = std::bit_floor(parts.size() - 1);
  return tree_sum(parts.first(half)) + tree_sum(parts.subspan(half));
}

}  // namespace

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

GradientNorm::GradientNorm(const OptimizerSettings& settings, const ParameterStore& parameters,
                           const StepInputs& inputs)
    : parameters_(parameters),
      inputs_(inputs),
      factors_(update_factors(settings, parameters.specs())),
      limit_(settings.clip_norm) {}

double GradientNorm::square_sum(std::size_t first, std::span<const float> means) const {
  double sum = 0.0;
  for_each_variable_in(parameters_.layout(), first, first + means.size(),
                       [&](int variable, std::size_t begin, std::size_t end) {
                         const UpdateFactors& factors = factors_[static_cast<std::size_t>(variable)];
                         if (!factors.trains_at(inputs_.scalars.step)) return;
                         const float* gradients = means.data() + (begin - first);
                         float with_l2[sum_block_floats];
                         if (factors.l2 != 0.0f) {
                           add_l2(factors.l2, parameters_.values().data() + begin, gradients, end - begin, with_l2);
                           gradients = with_l2;
                         }
                         sum += sum_of_squares(gradients, end - begin);
                       });
  return sum;
}

ClippedNorm GradientNorm::of_blocks(std::span<const double> square_sums) const {
  return clipped_norm(tree_sum(square_sums), limit_);
}

ClippedNorm GradientNorm::of_gradients() {
  square_sums_.resize(block_count());
  const std::span<const float> gradients = parameters_.gradients_and_sums().first(parameters_.layout().total());
  parallel_blocks(gradients.size(), sum_block_floats, elementwise_grain, [&](std::size_t begin, std::size_t end) {
    square_sums_[begin / sum_block_floats] = square_sum(begin, gradients.subspan(begin, end - begin));
  });
  return of_blocks(square_sums_);
}

}  // namespace carillon
