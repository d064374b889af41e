#include "src/report/bucket_counter.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "carillon/core/error.h"
#include "src/report/histogram.h"

namespace carillon {
namespace {

constexpr int cell_bits = 13;
constexpr int cell_shift = 32 - cell_bits;
constexpr std::uint32_t sign_bit = std::uint32_t{1} << 31;

/// The bits of the lowest float that is not below `limit`; beyond the largest float those of infinity.
std::uint32_t bits_from(double limit) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  if (limit > std::numeric_limits<float>::max()) return std::bit_cast<std::uint32_t>(infinity);
  const auto rounded = static_cast<float>(limit);
  return std::bit_cast<std::uint32_t>(static_cast<double>(rounded) >= limit ? rounded
                                                                            : std::nextafter(rounded, infinity));
}

struct Cells {
  std::array<std::uint64_t, std::size_t{1} << cell_bits> cells{};
  std::vector<std::size_t> bucket_of_ordinal;

  explicit Cells(std::span<const double> limits) {
    const auto zero_bucket = static_cast<std::size_t>(std::ranges::upper_bound(limits, 0.0) - limits.begin());
    const auto positive = limits.subspan(zero_bucket);
    std::vector<std::uint32_t> thresholds;
    for (const double limit : positive) thresholds.push_back(bits_from(limit));
    add_half(0, thresholds);
    for (std::size_t i = 0; i < positive.size(); ++i) bucket_of_ordinal.push_back(zero_bucket + i);
    // The same holds below zero: 0 is the only limit that is a float, so no value is equal to another limit. -0 equals
    // 0 and belongs to its bucket.
    thresholds.insert(thresholds.begin(), 1);
    add_half(sign_bit, thresholds);
    for (std::size_t i = 0; i <= zero_bucket; ++i) bucket_of_ordinal.push_back(zero_bucket - i);
  }

 private:
  /// The cells of one sign. `thresholds`: ascending; the bits, without the sign, at which each next ordinal begins.
  void add_half(std::uint32_t sign, std::span<const std::uint32_t> thresholds) {
    const std::uint64_t first_ordinal = bucket_of_ordinal.size();
    std::uint64_t passed = 0;
    for (std::uint32_t bits = 0; bits < sign_bit; bits += std::uint32_t{1} << cell_shift) {
      while (passed < thresholds.size() && thresholds[passed] <= bits) ++passed;
      const bool splits = passed < thresholds.size() && (thresholds[passed] >> cell_shift) == (bits >> cell_shift);
      const std::uint64_t carry_from = splits ? (std::uint64_t{1} << 32) - (thresholds[passed] | sign) : 0;
      cells[(bits | sign) >> cell_shift] = ((first_ordinal + passed) << 32) + carry_from;
    }
  }
};

const Cells& cells_of_limits() {
  static const Cells cells(histogram_limits());
  return cells;
}

}  // namespace

void BucketCounter::add(std::span<const float> values) {
  const auto& cells = cells_of_limits().cells;
  const auto count = [&](std::size_t i, std::size_t table) {
    const auto bits = std::bit_cast<std::uint32_t>(values[i]);
    ++tables_[table][(cells[bits >> cell_shift] + bits) >> 32];
  };
  std::size_t i = 0;
  for (; i + table_count <= values.size(); i += table_count) {
#pragma GCC unroll 4
    for (std::size_t table = 0; table < table_count; ++table) count(i + table, table);
  }
  for (; i < values.size(); ++i) count(i, 0);
}

std::vector<double> BucketCounter::counts() const {
  const auto& bucket_of_ordinal = cells_of_limits().bucket_of_ordinal;
  check(bucket_of_ordinal.size() <= table_size, "more buckets than a table counts");
  std::vector<double> counts(histogram_limits().size());
  for (std::size_t ordinal = 0; ordinal < bucket_of_ordinal.size(); ++ordinal) {
    for (const auto& table : tables_) counts[bucket_of_ordinal[ordinal]] += table[ordinal];
  }
  return counts;
}

}  // namespace carillon
