#include "src/images/resize.h"

#include <algorithm>
#include <cmath>

#include "carillon/core/error.h"
#include "carillon/core/parallel.h"

namespace carillon {
namespace {

constexpr int row_bits = 4;  ///< fraction of what the rows' sums are kept as, between the two passes
static_assert(255 << (ResizeAxis::weight_bits + row_bits) < 1 << 24);  // exact in float32

/// The weights of one pixel, in floating point, from source pixel `first` on.
struct Taps {
  std::int64_t first = 0;
  std::vector<double> weights;
};

Taps antialiased_taps(const AxisRequest& r, std::int64_t i, double scale) {
  const double support = std::max(scale, 1.0), center = r.begin + (static_cast<double>(i) + 0.5) * scale;
  const auto whole = [](double x) { return static_cast<std::int64_t>(std::floor(x)); };
  const std::int64_t begin = std::clamp(whole(center - support + 0.5), r.lowest, r.limit - 1);
  const std::int64_t end = std::clamp(whole(center + support + 0.5), begin + 1, r.limit);
  Taps taps{begin, {}};
  for (std::int64_t x = begin; x < end; ++x) {
    taps.weights.push_back(std::max(0.0, 1.0 - std::abs((static_cast<double>(x) + 0.5 - center) / support)));
  }
  return taps;
}

Taps corner_aligned_taps(const AxisRequest& r, std::int64_t i, double scale) {
  const double x = r.begin + static_cast<double>(i) * scale, below = std::floor(x);
  const std::int64_t first = std::clamp(static_cast<std::int64_t>(below), r.lowest, r.limit - 1);
  if (first + 1 == r.limit) return {first, {1.0}};
  return {first, {1.0 - (x - below), x - below}};
}

/// Whole numbers in their proportion that sum to 1; the largest takes what rounding leaves.
void append_weights(const std::vector<double>& exact, int taps, std::vector<float>& weights) {
  constexpr double one = 1 << ResizeAxis::weight_bits;
  double sum = 0.0;
  for (const double weight : exact) sum += weight;
  const std::size_t begin = weights.size();
  double left = one;
  for (const double weight : exact) {
    weights.push_back(static_cast<float>(std::round(weight / sum * one)));
    left -= static_cast<double>(weights.back());
  }
  *std::max_element(weights.begin() + static_cast<std::ptrdiff_t>(begin), weights.end()) += static_cast<float>(left);
  weights.resize(begin + static_cast<std::size_t>(taps));
}

/// One row of sums of rows: out[x] = sum over t of weights[t] * row t[x], rounded to row_bits.
CARILLON_SIMD void sum_rows(const std::uint8_t* first_row, std::size_t stride, const float* weights, int taps,
                            std::size_t count, float* out) {
  constexpr float scale = 1.0f / static_cast<float>(1 << (ResizeAxis::weight_bits - row_bits));
  for (std::size_t x = 0; x < count; ++x) out[x] = 0.5f / scale;
  for (int t = 0; t < taps; ++t) {
    const float weight = weights[t];
    if (weight == 0.0f) continue;
    const std::uint8_t* row = first_row + static_cast<std::size_t>(t) * stride;
    for (std::size_t x = 0; x < count; ++x) out[x] += weight * static_cast<float>(row[x]);
  }
  for (std::size_t x = 0; x < count; ++x) out[x] = static_cast<float>(static_cast<std::int32_t>(out[x] * scale));
}

using FourFloats = float __attribute__((vector_size(16)));
using FourInts = std::int32_t __attribute__((vector_size(16)));

/// One row of pixels of sums along it.
CARILLON_SIMD void sum_columns(const float* row, const std::int32_t* first, const float* weights, int taps,
                               std::int64_t count, const PixelLayout& layout, std::uint8_t* out) {
  constexpr float scale = 1.0f / static_cast<float>(1 << (ResizeAxis::weight_bits + row_bits));
  for (std::int64_t i = 0; i < count; ++i) {
    FourFloats sum = FourFloats{} + 0.5f / scale;
    const float* source = row + std::int64_t{first[i]} * 4;
    for (int t = 0; t < taps; ++t) {
      FourFloats pixel;
      __builtin_memcpy(&pixel, source + t * 4, sizeof pixel);
      sum += pixel * weights[i * taps + t];
    }
    const FourInts values = __builtin_convertvector(sum * scale, FourInts);
    std::uint8_t* to = out + i * layout.pixel;
    to[0] = static_cast<std::uint8_t>(values[0]);
    to[layout.plane] = static_cast<std::uint8_t>(values[1]);
    to[2 * layout.plane] = static_cast<std::uint8_t>(values[2]);
  }
}

}  // namespace

std::int64_t ResizeAxis::begin() const { return std::min(first.front(), first.back()); }
std::int64_t ResizeAxis::end() const { return std::max(first.front(), first.back()) + taps; }

ResizeAxis make_axis(const AxisRequest& r, Resampling resampling) {
  check(r.limit > r.lowest && r.count > 0 && r.length > 0.0, "an axis of nothing");
  const double scale = r.length / static_cast<double>(r.resized);
  std::vector<Taps> all;
  std::size_t most = 1;
  for (std::int64_t i = r.first; i < r.first + r.count; ++i) {
    all.push_back(resampling == Resampling::antialiased ? antialiased_taps(r, i, scale)
                                                        : corner_aligned_taps(r, i, scale));
    most = std::max(most, all.back().weights.size());
  }
  ResizeAxis axis;
  axis.taps = static_cast<int>(most);
  for (Taps& taps : all) {
    // Near the limit, taps of weight 0 come first, so that none lies beyond it.
    const std::int64_t first = std::max(std::min(taps.first, r.limit - static_cast<std::int64_t>(most)), r.lowest);
    taps.weights.insert(taps.weights.begin(), static_cast<std::size_t>(taps.first - first), 0.0);
    axis.first.push_back(static_cast<std::int32_t>(first));
    append_weights(taps.weights, axis.taps, axis.weights);
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
            const PixelLayout& layout, std::span<std::uint8_t> out) {
  const std::int64_t height = std::ssize(rows.first), width = std::ssize(columns.first);
  const std::size_t stride = static_cast<std::size_t>(part.width) * 4;
  const std::int64_t read_from = columns.begin() - part.column, read_to = columns.end() - part.column;
  const std::size_t count = static_cast<std::size_t>(read_to - read_from) * 4;
  memory.row.resize(std::max(memory.row.size(), count));
  const float* shifted = memory.row.data() - columns.begin() * 4;  // by the columns' indices
  for (std::int64_t y = 0; y < height; ++y) {
    const std::uint8_t* first_row = part.row_at(rows.first[static_cast<std::size_t>(y)] - part.row) + read_from * 4;
    sum_rows(first_row, stride, rows.weights.data() + y * rows.taps, rows.taps, count, memory.row.data());
    sum_columns(shifted, columns.first.data(), columns.weights.data(), columns.taps, width, layout,
                out.data() + y * layout.row);
  }
}

}  // namespace carillon
