#include "src/report/histogram.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>

#include "carillon/core/parallel.h"

namespace carillon {
namespace {

std::vector<double> make_limits() {
  std::vector<double> positive;
  for (double limit = 1e-12; limit < 1e20; limit *= 1.1) positive.push_back(limit);
  positive.push_back(std::numeric_limits<double>::max());
  std::vector<double> limits;
  for (auto limit = positive.rbegin(); limit != positive.rend(); ++limit) limits.push_back(-*limit);
  limits.push_back(0.0);
  limits.insert(limits.end(), positive.begin(), positive.end());
  return limits;
}

// A float's top 13 bits (sign, exponent, 4 bits of mantissa) name a cell in which values differ by less than a tenth,
// so that it holds one limit at most: a value's bucket is that of the cell's lowest value, or the next. No branch, no
// search.
constexpr int cell_bits = 13;
constexpr int cell_shift = 32 - cell_bits;

struct Cell {
  float next_bucket_from = 0.0f;  ///< the lowest value that is in bucket + 1
  std::uint32_t bucket = 0;
};
using Cells = std::array<Cell, 1 << cell_bits>;

/// The lowest float that is not below `limit`: infinity, which no value reaches, beyond the largest.
float float_from(double limit) {
  if (limit > std::numeric_limits<float>::max()) return std::numeric_limits<float>::infinity();
  const auto rounded = static_cast<float>(limit);
  return static_cast<double>(rounded) >= limit ? rounded : std::nextafter(rounded, std::numeric_limits<float>::max());
}

Cells make_cells(std::span<const double> limits) {
  Cells cells{};
  for (std::uint32_t i = 0; i < cells.size(); ++i) {
    const bool negative = (i >> (cell_bits - 1)) != 0;
    const auto lowest = std::bit_cast<float>((i << cell_shift) | (negative ? (1u << cell_shift) - 1 : 0u));
    if (!std::isfinite(lowest)) continue;
    const auto bucket = static_cast<std::uint32_t>(std::ranges::upper_bound(limits, lowest) - limits.begin());
    cells[i] = {float_from(limits[bucket]), bucket};
  }
  return cells;
}

/// Counts of finite values. Neighbours often fall into one bucket, so they are counted in different tables: an
/// increment need not wait for the one before it.
std::vector<double> count_buckets(std::span<const float> values, const Cells& cells, std::size_t bucket_count) {
  constexpr std::size_t tables = 4;
  std::vector<std::uint32_t> counts(tables * bucket_count);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Cell& cell = cells[std::bit_cast<std::uint32_t>(values[i]) >> cell_shift];
    const std::size_t bucket = cell.bucket + (values[i] >= cell.next_bucket_from ? 1u : 0u);
    ++counts[(i % tables) * bucket_count + bucket];
  }
  std::vector<double> sums(bucket_count);
  for (std::size_t i = 0; i < counts.size(); ++i) sums[i % bucket_count] += counts[i];
  return sums;
}

/// Sums and extremes in independent lanes, so that the order is fixed and yet vectorises.
CARILLON_SIMD void summarise(const float* values, std::size_t count, double& sum, double& squares, float& min,
                             float& max) {
  constexpr std::size_t lanes = 16;
  double sums[lanes] = {}, square_sums[lanes] = {};
  float lows[lanes], highs[lanes];
  std::fill(lows, lows + lanes, std::numeric_limits<float>::infinity());
  std::fill(highs, highs + lanes, -std::numeric_limits<float>::infinity());
  for (std::size_t i = 0; i < count; i += lanes) {
    const std::size_t width = std::min(lanes, count - i);
    for (std::size_t lane = 0; lane < width; ++lane) {
      const float value = values[i + lane];
      sums[lane] += value;
      square_sums[lane] += static_cast<double>(value) * value;
      lows[lane] = value < lows[lane] ? value : lows[lane];
      highs[lane] = value > highs[lane] ? value : highs[lane];
    }
  }
  sum = squares = 0.0;
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    sum += sums[lane];
    squares += square_sums[lane];
  }
  min = *std::min_element(lows, lows + lanes);
  max = *std::max_element(highs, highs + lanes);
}

/// Runs of empty buckets become one.
void collapse(std::span<const double> limits, std::span<const double> counts, Histogram& result) {
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) {
      while (i + 1 < counts.size() && counts[i + 1] == 0) ++i;
    }
    result.limits.push_back(limits[i]);
    result.counts.push_back(counts[i]);
  }
}

}  // namespace

std::span<const double> histogram_limits() {
  static const auto limits = make_limits();
  return limits;
}

Histogram histogram_of(std::span<const float> values) {
  const auto limits = histogram_limits();
  static const auto cells = make_cells(limits);
  std::vector<float> finite;
  if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) {
    std::ranges::copy_if(values, std::back_inserter(finite), [](float value) { return std::isfinite(value); });
    values = finite;
  }
  Histogram result;
  result.count = static_cast<double>(values.size());
  if (!values.empty()) {
    float min = 0.0f, max = 0.0f;
    summarise(values.data(), values.size(), result.sum, result.sum_squares, min, max);
    result.min = min;
    result.max = max;
  }
  collapse(limits, count_buckets(values, cells, limits.size()), result);
  return result;
}

}  // namespace carillon
