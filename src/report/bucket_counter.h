// BucketCounter: counts the floats in each bucket of a histogram, at two cycles per value.
//
// The top 13 bits of a float (sign, exponent, 4 bits of mantissa) are its cell. Magnitudes within a cell differ by less
// than a tenth, so a cell contains at most one bucket limit. Buckets of each sign are numbered outward from zero by
// ordinals. Within a cell the ordinal rises by one at a threshold t. With cells[c] = (ordinal << 32) + 2^32 - t,
//   ordinal of x = (cells[bits(x) >> 19] + bits(x)) >> 32
// and the carry does the comparison. There is no branch, no search and no float arithmetic, so flushing of denormals
// does not matter.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace carillon {

class BucketCounter {
 public:
  /// Counts `values`, which are finite.
  void add(std::span<const float> values);

  /// The count of each bucket of histogram_limits().
  std::vector<double> counts() const;

 private:
  // Neighbouring values often fall into the same bucket. They are counted in different tables, so that an increment
  // does not wait for the previous one. The distance of the tables is no multiple of 4 KiB, which would cause 4K
  // aliasing.
  static constexpr std::size_t table_count = 4, table_size = 1568;
  std::array<std::array<std::uint32_t, table_size>, table_count> tables_{};
};

}  // namespace carillon
