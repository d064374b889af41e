// BucketCounter: how many floats fall into each of a histogram's buckets, at two cycles a value.
//
// A float's top 13 bits (sign, exponent, 4 bits of mantissa) name a cell, in which magnitudes differ by less than a
// tenth, so that it holds one limit at most. Buckets are numbered outward from zero, by sign: their ordinals. Within a
// cell the ordinal rises by one from a threshold t on, so with cells[c] = (ordinal << 32) + 2^32 - t
//   ordinal of x = (cells[bits(x) >> 19] + bits(x)) >> 32:
// the carry compares. No branch, no search, no arithmetic in float (whether denormals are flushed does not matter).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace carillon {

class BucketCounter {
 public:
  /// Counts `values`, all of them finite.
  void add(std::span<const float> values);

  /// Of every bucket of histogram_limits().
  std::vector<double> counts() const;

 private:
  // Neighbours often fall into one bucket, so they are counted in different tables: an increment need not wait for the
  // one before it. The tables do not lie a multiple of 4 KiB apart, by which cores take addresses for equal.
  static constexpr std::size_t table_count = 4, table_size = 1568;
  std::array<std::array<std::uint32_t, table_size>, table_count> tables_{};
};

}  // namespace carillon
