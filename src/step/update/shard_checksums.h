// ShardChecksums: the checksums of a ShardedUpdate (memory_checksums.h).
//
//   several ranks   compare the values of the other shards -> own shard, block by block: compare, update, record
//                   -> publish -> (the ranks meet) -> copy the other shards, compare them with what their ranks
//                   published
//   one rank        variable by variable: compare, update, record
//
// So a change is found unless it happens while its block is being updated. If a rank finds one in its own memory, it
// fails before the ranks meet, and no rank completes the step. A change in a received copy is found later.
//
// One rank whose mean gradients must be readable updates all variables at once, between a comparison and a recording of
// all blocks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/comm/allreduce/shared_host_memory.h"
#include "src/step/update/memory_checksums.h"

namespace carillon {

class ShardChecksums {
 public:
  /// Bytes that each rank needs to publish the checksums of its shard, a multiple of 64. `count`: elements of all
  /// shards.
  static std::size_t bytes(std::size_t count, int ranks);

  /// `own`: where this rank publishes its checksums, in an own array of `memory`, at the same offset on all ranks. Not
  /// used by one rank.
  /// `parameters` and `memory` outlive this.
  ShardChecksums(const ParameterStore& parameters, const SharedHostMemory& memory, std::byte* own);

  /// Computes the checksums of all variables and of the slots that this rank updates.
  void record();
  /// Compares all of them with the memory. Errors: ChangedInMemory.
  void check();

  // Several ranks.
  /// Compares the values of the other ranks' shards.
  void compare_other_shards();
  /// Calls `update`, which updates a block of the shard of `owner`. Compares the block before, and records and
  /// publishes it afterwards. If `owner` is another rank, whose process has ended in its update, the block is not
  /// compared. Threads of a parallel region may call it for different blocks.
  template <typename Update>
  void around_update(int owner, Slice block, const Update& update) {
    if (owner == memory_.rank()) sums_.compare(block);
    update();
    sums_.record(block, arrays_of(owner));
    publish(owner, block.begin);
  }
  /// After the ranks have copied the values of the other shards from each other: compares them with what their ranks
  /// have published. Errors: ChangedInMemory.
  void check_received();

  // One rank, around the update of a variable.
  void compare(int parameter) { sums_.compare(elements_of(parameter)); }
  void record(int parameter) { sums_.record(elements_of(parameter)); }

  /// Errors: ChangedInMemory (a call above has found a difference).
  void require_unchanged() { sums_.require_unchanged(); }

 private:
  using Arrays = MemoryChecksums::Arrays;

  /// The arrays of a rank's shard that this rank checks.
  Arrays arrays_of(int owner) const { return owner == memory_.rank() ? Arrays::values_and_slots : Arrays::values; }
  Slice shard(int rank) const { return memory_.shard(parameters_.layout().total(), rank); }
  Slice elements_of(int parameter) const;
  /// The published checksum of the block that begins at `first`, in the memory of `owner`.
  std::uint64_t& published(int owner, std::size_t first) const;
  void publish(int owner, std::size_t first) { published(owner, first) = sums_.value_checksum(first); }

  const ParameterStore& parameters_;
  const SharedHostMemory& memory_;
  std::byte* own_;
  MemoryChecksums sums_;
};

}  // namespace carillon
