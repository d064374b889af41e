#include "src/images/picture.h"

#include <algorithm>
#include <cmath>

#include "carillon/core/error.h"
#include "carillon/core/parallel.h"

namespace carillon {
namespace {

constexpr int row_bits = 4;  ///< number of fraction bits of the values between the two passes
static_assert(255 << (ResizeAxis::weight_bits + row_bits) < 1 << 24);  // so that all values are exact in float32

/// The taps of one output pixel: `count` weights for `count` source pixels, starting at pixel `first`. The weights
/// themselves are in the caller's list.
struct Taps {
  std::int64_t first = 0;
  std::size_t count = 0;
};

Taps append_antialiased(const AxisRequest& r, std::int64_t i, double scale, std::vector<double>& weights) {
  const double support = std::max(scale, 1.0), center = r.begin + (static_cast<double>(i) + 0.5) * scale;
  const auto whole = [](double x) { return static_cast<std::int64_t>(std::floor(x)); };
  const std::int64_t begin = std::clamp(whole(center - support + 0.5), r.lowest, r.limit - 1);
  const std::int64_t end = std::clamp(whole(center + support + 0.5), begin + 1, r.limit);
  for (std::int64_t x = begin; x < end; ++x) {
    weights.push_back(std::max(0.0, 1.0 - std::abs((static_cast<double>(x) + 0.5 - center) / support)));
  }
  return {begin, static_cast<std::size_t>(end - begin)};
}

Taps append_top_left_aligned(const AxisRequest& r, std::int64_t i, double scale, std::vector<double>& weights) {
  const double x = r.begin + static_cast<double>(i) * scale, below = std::floor(x);
  const std::int64_t first = std::clamp(static_cast<std::int64_t>(below), r.lowest, r.limit - 1);
  if (first + 1 == r.limit) {
    weights.push_back(1.0);
    return {first, 1};
  }
  weights.insert(weights.end(), {1.0 - (x - below), x - below});
  return {first, 2};
}

/// Rounds weights to integers in units of 2^-weight_bits. Corrects the largest weight, so that the exact sum is 1.
void round_weights(std::span<const double> exact, std::span<float> weights) {
  constexpr double one = 1 << ResizeAxis::weight_bits;
  double sum = 0.0;
  for (const double weight : exact) sum += weight;
  double left = one;
  for (std::size_t t = 0; t < exact.size(); ++t) {
    weights[t] = static_cast<float>(std::round(exact[t] / sum * one));
    left -= static_cast<double>(weights[t]);
  }
  *std::ranges::max_element(weights) += static_cast<float>(left);
}

// If `taps` is a constant, the loop over taps is unrolled. These functions are inlined, so that they are compiled for
// each instruction set of the caller.

template <int taps>
[[gnu::always_inline]] inline void sum_few_rows(const std::uint8_t* first_row, std::size_t stride,
                                                const float* all_weights, std::size_t count, float* out) {
  constexpr float scale = 1.0f / static_cast<float>(1 << (ResizeAxis::weight_bits - row_bits));
  float weights[taps];
  std::copy_n(all_weights, taps, weights);
  for (std::size_t x = 0; x < count; ++x) {
    float sum = 0.5f / scale;
    for (int t = 0; t < taps; ++t) {
      sum += weights[t] * static_cast<float>(first_row[static_cast<std::size_t>(t) * stride + x]);
    }
    out[x] = static_cast<float>(static_cast<std::int32_t>(sum * scale));
  }
}

[[gnu::always_inline]] inline void sum_many_rows(const std::uint8_t* first_row, std::size_t stride,
                                                 const float* weights, int taps, std::size_t count, float* out) {
  constexpr float scale = 1.0f / static_cast<float>(1 << (ResizeAxis::weight_bits - row_bits));
  for (std::size_t x = 0; x < count; ++x) out[x] = 0.5f / scale;
  for (int t = 0; t < taps; ++t) {
    const float weight = weights[t];
    const std::uint8_t* row = first_row + static_cast<std::size_t>(t) * stride;
    for (std::size_t x = 0; x < count; ++x) out[x] += weight * static_cast<float>(row[x]);
  }
  for (std::size_t x = 0; x < count; ++x) out[x] = static_cast<float>(static_cast<std::int32_t>(out[x] * scale));
}

/// The vertical pass for one output row: out[x] = sum over t of weights[t] * value x of source row t, rounded to
/// row_bits fraction bits.
CARILLON_SIMD void sum_rows(const std::uint8_t* first_row, std::size_t stride, const float* weights, int taps,
                            std::size_t count, float* out) {
  while (taps > 1 && weights[taps - 1] == 0.0f) --taps;
  switch (taps) {
    case 1:
      return sum_few_rows<1>(first_row, stride, weights, count, out);
    case 2:
      return sum_few_rows<2>(first_row, stride, weights, count, out);
    case 3:
      return sum_few_rows<3>(first_row, stride, weights, count, out);
    case 4:
      return sum_few_rows<4>(first_row, stride, weights, count, out);
    default:
      return sum_many_rows(first_row, stride, weights, taps, count, out);
  }
}

using FourFloats = float __attribute__((vector_size(16)));
using FourInts = std::int32_t __attribute__((vector_size(16)));
using FourBytes = std::uint8_t __attribute__((vector_size(4)));

/// Computes the four channels of one output pixel: the sum over t of weights[t] * (source pixel t), rounded to
/// integers. `fixed`: the value of `taps` if it is known at compile time; 0: it is not known.
template <int fixed>
[[gnu::always_inline]] inline FourInts sum_pixels(const float* source, const float* weights, int taps) {
  constexpr float scale = 1.0f / static_cast<float>(1 << (ResizeAxis::weight_bits + row_bits));
  FourFloats sum = FourFloats{} + 0.5f / scale;
  for (int t = 0; t < (fixed > 0 ? fixed : taps); ++t) {
    FourFloats pixel;
    __builtin_memcpy(&pixel, source + t * 4, sizeof pixel);
    sum += pixel * weights[t];
  }
  return __builtin_convertvector(sum * scale, FourInts);
}

template <int fixed>
[[gnu::always_inline]] inline void sum_columns_of(const float* row, const std::int32_t* first, const float* weights,
                                                  int taps, std::int64_t count, std::uint8_t* out) {
  const auto pixel_of = [&](std::int64_t i) __attribute__((always_inline)) {
    return __builtin_convertvector(sum_pixels<fixed>(row + std::int64_t{first[i]} * 4, weights + i * taps, taps),
                                   FourBytes);
  };
  // The fourth byte that this iteration writes belongs to the next pixel. The next iteration overwrites this byte.
  for (std::int64_t i = 0; i + 1 < count; ++i) {
    const FourBytes pixel = pixel_of(i);
    __builtin_memcpy(out + 3 * i, &pixel, 4);
  }
  const FourBytes last = pixel_of(count - 1);
  __builtin_memcpy(out + 3 * (count - 1), &last, 3);
}

/// Horizontal pass: computes the `count` output pixels of a row from `row`, the result of the vertical pass.
CARILLON_SIMD void sum_columns(const float* row, const std::int32_t* first, const float* weights, int taps,
                               std::int64_t count, std::uint8_t* out) {
  switch (taps) {
    case 2:
      return sum_columns_of<2>(row, first, weights, taps, count, out);
    case 3:
      return sum_columns_of<3>(row, first, weights, taps, count, out);
    case 4:
      return sum_columns_of<4>(row, first, weights, taps, count, out);
    default:
      return sum_columns_of<0>(row, first, weights, taps, count, out);
  }
}

}  // namespace

std::int64_t ResizeAxis::begin() const { return std::min(first.front(), first.back()); }
std::int64_t ResizeAxis::end() const { return std::max(first.front(), first.back()) + taps; }

ResizeAxis make_axis(const AxisRequest& r, Resampling resampling) {
  check(r.limit > r.lowest && r.count > 0 && r.length > 0.0, "an axis must not be empty");
  const double scale = r.length / static_cast<double>(r.resized);
  std::vector<Taps> all;
  std::vector<double> exact;
  all.reserve(static_cast<std::size_t>(r.count));
  std::size_t most = 1;
  for (std::int64_t i = r.first; i < r.first + r.count; ++i) {
    all.push_back(resampling == Resampling::antialiased ? append_antialiased(r, i, scale, exact)
                                                        : append_top_left_aligned(r, i, scale, exact));
    most = std::max(most, all.back().count);
  }
  ResizeAxis axis;
  axis.taps = static_cast<int>(most);
  axis.first.reserve(all.size());
  axis.weights.resize(all.size() * most);
  const double* weights = exact.data();
  for (std::size_t i = 0; i < all.size(); weights += all[i++].count) {
    // Every pixel has `most` taps. If the pixel is near the limit, taps with weight 0 precede its taps, so that no tap
    // is beyond the limit.
    const std::int64_t first = std::max(std::min(all[i].first, r.limit - static_cast<std::int64_t>(most)), r.lowest);
    axis.first.push_back(static_cast<std::int32_t>(first));
    const std::size_t behind = i * most + static_cast<std::size_t>(all[i].first - first);
    round_weights({weights, all[i].count}, std::span(axis.weights).subspan(behind, all[i].count));
  }
  return axis;
}

void mirror(ResizeAxis& axis) {
  std::ranges::reverse(axis.first);
  const std::vector<float> weights = axis.weights;
  const auto taps = static_cast<std::ptrdiff_t>(axis.taps);
  for (std::ptrdiff_t i = 0, count = std::ssize(axis.first); i < count; ++i) {
    std::copy_n(weights.begin() + (count - 1 - i) * taps, taps, axis.weights.begin() + i * taps);
  }
}

void resize(const DecodedPart& part, const ResizeAxis& rows, const ResizeAxis& columns, ViewMemory& memory,
            std::int64_t row_bytes, std::span<std::uint8_t> out) {
  const std::int64_t height = std::ssize(rows.first), width = std::ssize(columns.first);
  const std::size_t stride = static_cast<std::size_t>(part.width) * 4;
  const std::int64_t read_from = columns.begin() - part.column, read_to = columns.end() - part.column;
  const std::size_t count = static_cast<std::size_t>(read_to - read_from) * 4;
  memory.row.resize(std::max(memory.row.size(), count));
  const float* shifted = memory.row.data() - columns.begin() * 4;  // shifted[4 * c] belongs to source column c
  for (std::int64_t y = 0; y < height; ++y) {
    const std::uint8_t* first_row = part.row_at(rows.first[static_cast<std::size_t>(y)] - part.row) + read_from * 4;
    sum_rows(first_row, stride, rows.weights.data() + y * rows.taps, rows.taps, count, memory.row.data());
    sum_columns(shifted, columns.first.data(), columns.weights.data(), columns.taps, width, out.data() + y * row_bytes);
  }
}

}  // namespace carillon
