#include "src/io/histogram.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

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

// A float's top 12 bits (sign, exponent, 3 bits of mantissa) name a cell 2^(1/8) wide or less, that is with about one
// limit in it: from the bucket of the cell's lowest value it is a step or two to that of any other.
constexpr int cell_bits = 12;
constexpr int cell_shift = 32 - cell_bits;

std::size_t bucket_of(double value, std::span<const double> limits) {
  return static_cast<std::size_t>(std::ranges::upper_bound(limits, value) - limits.begin());
}

std::array<std::uint16_t, 1 << cell_bits> make_first_buckets(std::span<const double> limits) {
  std::array<std::uint16_t, 1 << cell_bits> first{};
  for (std::uint32_t cell = 0; cell < first.size(); ++cell) {
    const bool negative = (cell >> (cell_bits - 1)) != 0;
    const auto lowest = (cell << cell_shift) | (negative ? (1u << cell_shift) - 1 : 0u);
    const auto value = std::bit_cast<float>(lowest);
    first[cell] = std::isfinite(value) ? static_cast<std::uint16_t>(bucket_of(value, limits)) : std::uint16_t{0};
  }
  return first;
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
  static const auto first_buckets = make_first_buckets(limits);
  std::vector<double> counts(limits.size());
  float min = std::numeric_limits<float>::infinity();
  float max = -min;
  Histogram result;
  for (const float value : values) {
    if (!std::isfinite(value)) continue;
    const double exact = value;
    std::size_t bucket = first_buckets[std::bit_cast<std::uint32_t>(value) >> cell_shift];
    while (exact >= limits[bucket]) ++bucket;
    counts[bucket] += 1;
    min = std::min(min, value);
    max = std::max(max, value);
    result.count += 1;
    result.sum += exact;
    result.sum_squares += exact * exact;
  }
  if (result.count > 0) {
    result.min = min;
    result.max = max;
  }
  collapse(limits, counts, result);
  return result;
}

}  // namespace carillon
