// MemoryChecksums: finds variables and slots that change in memory between two updates.
//
// The checksum of a block of an array is the 64-bit sum of its 32-bit words. So a change of one word is always found.
// Changes of several words can cancel each other.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "carillon/core/sum_in_order.h"
#include "carillon/graph/parameters.h"
#include "src/comm/transport/group.h"

namespace carillon {

class MemoryChecksums {
 public:
  enum class Arrays { values, values_and_slots };

  /// `parts`: disjoint slices of the flat arrays, in ascending order. Each is divided into blocks of sum_block_floats
  /// elements; its last block may be shorter. `parameters` outlives this.
  MemoryChecksums(const ParameterStore& parameters, std::vector<Slice> parts);

  // `elements`: a part, or whole blocks of a part. Threads may call these at the same time for different blocks.
  /// Computes the checksums of the blocks.
  void record(Slice elements, Arrays arrays = Arrays::values_and_slots);
  /// Compares the blocks with their checksums. require_unchanged() reports a difference.
  void compare(Slice elements, Arrays arrays = Arrays::values_and_slots);

  /// The checksum of the values of the block that begins at `first`.
  std::uint64_t& value_checksum(std::size_t first) { return recorded_[0][block_at(first)]; }
  /// Errors: ChangedInMemory (a comparison since the last call found a difference; names one array and the variables in
  /// the block).
  void require_unchanged();

 private:
  struct Part {
    Slice elements;
    std::size_t first_block;
  };

  const Part& part_at(std::size_t element) const;
  std::size_t block_at(std::size_t first) const;
  /// Array 0: the values, then the slots.
  std::span<const float> array(std::size_t number) const;
  /// Calls visit(array, block number, sum) for each block of the elements.
  template <typename Visit>
  void sum_blocks(Slice elements, Arrays arrays, const Visit& visit) const;

  const ParameterStore& parameters_;
  std::vector<Part> parts_;
  std::vector<std::vector<std::uint64_t>> recorded_;  ///< [array][block]
  std::atomic<std::int64_t> changed_ = -1;            ///< array * elements + first element of the block; -1: none
};

/// Errors: ChangedInMemory (the bytes of the arrays differ; the message names `what`).
void check_equal_bytes(std::span<const float> first, std::span<const float> second, std::string_view what);

}  // namespace carillon
