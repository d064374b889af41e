// BalancedOrder: a sample order that draws each group of records, such as the records of a class, equally often.
//
// With G groups, position p belongs to block b = p / G. Each block has each group once: position p takes group
// g = permutation(seed, b)[p % G]. So b is also the number of earlier draws of this group. With n records in the group,
// the record is permutation(seed, b / n, g)[b % n] of the group: each pass over the group takes each of its records
// once. A record is thus a function of seed and position alone, as in SampleOrder.
//
// Without shuffling, both permutations are 0, 1, 2, ...
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace carillon {

/// Record numbers of each group, ascending.
using RecordGroups = std::vector<std::vector<std::uint32_t>>;

class BalancedOrder {
 public:
  /// Requires at least one group, and at least one record in each group.
  BalancedOrder(std::shared_ptr<const RecordGroups> groups, std::uint64_t seed, bool shuffle);

  /// Record number at stream position `position`. Keeps one permutation per group, 4 bytes per record. Cost: O(1) if
  /// positions mostly increase and a reader takes at least G of them at a time, otherwise O(G) per change of block.
  std::uint32_t record_at(std::uint64_t position);

 private:
  struct Permutation {
    std::uint64_t number = 0;  ///< of the block or the pass
    std::vector<std::uint32_t> values = {};
  };
  std::uint32_t group_at(std::uint64_t position);

  std::shared_ptr<const RecordGroups> groups_;
  std::uint64_t seed_;
  bool shuffle_;
  Permutation block_;                ///< the last block's
  std::vector<Permutation> passes_;  ///< the last pass of each group
};

}  // namespace carillon
