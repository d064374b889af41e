#include "kernels/attention/attention_rows_cpu.h"

namespace carillon {
namespace {

constexpr std::int64_t lanes = score_lanes;
using Vector = float __attribute__((vector_size(lanes * sizeof(float)), may_alias));

/// Returns elements [j, j + lanes) of a row.
[[gnu::always_inline]] inline const Vector& vector_at(const float* row, std::int64_t j) {
  return *reinterpret_cast<const Vector*>(row + j);
}

[[gnu::always_inline]] inline float sum_of(const Vector& values) {
  float sums[lanes];
  for (int l = 0; l < lanes; ++l) sums[l] = values[l];
  for (int width = lanes / 2; width > 0; width /= 2) {
    for (int l = 0; l < width; ++l) sums[l] += sums[l + width];
  }
  return sums[0];
}

[[gnu::always_inline]] inline float largest_of(const float* row, std::int64_t columns) {
  Vector largest = vector_at(row, 0);
  for (std::int64_t j = lanes; j < columns; j += lanes) {
    const Vector values = vector_at(row, j);
    largest = values > largest ? values : largest;
  }
  float result = largest[0];
  for (int l = 1; l < lanes; ++l) result = largest[l] > result ? largest[l] : result;
  return result;
}

}  // namespace

CARILLON_SIMD void weigh_scores(const PaddedMatrix& scores, std::int64_t rows, std::int64_t columns, float scale,
                                AttentionRow* kept) {
  const std::int64_t padded = ceil_divide(columns, lanes) * lanes;
  for (std::int64_t i = 0; i < rows; ++i) {
    float* const row = scores.at(i);
    for (std::int64_t j = columns; j < padded; ++j) row[j] = row[0];
    const float largest = largest_of(row, padded);
    for (std::int64_t j = 0; j < padded; ++j) row[j] = attention_weight(row[j], largest, scale);
    for (std::int64_t j = columns; j < padded; ++j) row[j] = 0.0f;
    Vector sums = {};
    for (std::int64_t j = 0; j < padded; j += lanes) sums += vector_at(row, j);
    kept[i] = {largest, 1.0f / sum_of(sums)};
  }
}

CARILLON_SIMD void differentiate_weights(const PaddedMatrix& scores, const PaddedMatrix& gradients, std::int64_t rows,
                                         std::int64_t columns, float scale, const AttentionRow* kept) {
  const std::int64_t padded = ceil_divide(columns, lanes) * lanes;
  for (std::int64_t i = 0; i < rows; ++i) {
    float* __restrict const p = scores.at(i);
    float* __restrict const d = gradients.at(i);
    const float largest = kept[i].largest, inverse_sum = kept[i].inverse_sum;
    for (std::int64_t j = columns; j < padded; ++j) {  // the padding columns hold arbitrary values
      p[j] = largest;
      d[j] = 0.0f;
    }
    for (std::int64_t j = 0; j < padded; ++j) p[j] = attention_weight(p[j], largest, scale) * inverse_sum;
    Vector sums = {};
    for (std::int64_t j = 0; j < padded; j += lanes) sums += vector_at(p, j) * vector_at(d, j);
    const float sum = sum_of(sums);
    for (std::int64_t j = 0; j < padded; ++j) d[j] = p[j] * (d[j] - sum) * scale;
  }
}

CARILLON_SIMD void multiply_row(float* row, std::int64_t columns, float factor) {
  for (std::int64_t c = 0; c < columns; ++c) row[c] *= factor;
}

}  // namespace carillon
