// SampleOrder: which record stands at position p of the endless sample stream.
//
// Position p of M records lies in epoch e = p / M; its record is permutation(seed, e)[p % M], or p % M unshuffled.
// The permutation is a Fisher-Yates shuffle driven by Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy
// as 1, 2, 3", SC'11), keyed by seed and epoch. So the stream depends on neither rank count nor history.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace carillon {

class SampleOrder {
 public:
  /// `record_count` >= 1 and < 2^32.
  SampleOrder(std::uint64_t record_count, std::uint64_t seed, bool shuffle);

  /// Record number at stream position `position`. Keeps the permutations of the two epochs used last: amortised O(1)
  /// when positions mostly grow, O(record_count) when an epoch is entered. Not for use by two threads at once.
  std::uint64_t record_at(std::uint64_t position);

 private:
  struct Epoch {
    std::uint64_t number;
    std::vector<std::uint32_t> permutation;
  };
  const Epoch& epoch(std::uint64_t number);

  std::uint64_t record_count_;
  std::uint64_t seed_;
  bool shuffle_;
  std::array<Epoch, 2> epochs_;
};

}  // namespace carillon
