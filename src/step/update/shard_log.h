// ShardLog: records in shared memory which blocks of its shard a rank has updated. If the process of a rank ends during
// an update, another rank finishes the shard with the same bits.
//
// An update changes the slots in place, and there is only one copy of the slots. Therefore a thread copies the slots of
// a block to its log before it changes the block. Afterwards it marks the block as done.
//
//   copy slots -> open block -> update slots and values -> mark block
//
// If a block is neither marked nor open, its slots still have the values from before the update. If a block is open and
// not marked, its old slots are restored from the log. Every other rank has the old values of the shard in its own
// memory until it gathers the new values. The gradients of a rank are in shared memory, so they outlive its process.
// Therefore another rank can repeat the update of each block that is not marked.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "carillon/core/reduction.h"
#include "carillon/graph/parameters.h"
#include "src/comm/allreduce/shared_host_memory.h"

namespace carillon {

class ShardLog {
 public:
  /// Sizes that determine the layout of the log.
  struct Form {
    std::size_t count;    ///< number of elements of each flat array
    std::size_t slots;    ///< number of arrays (slots) of the optimiser
    std::size_t ranks;    ///< number of ranks of the host
    std::size_t threads;  ///< number of threads of this rank that update blocks
  };
  /// Returns the size of this rank's log in bytes.
  static std::size_t bytes(const Form& form);

  /// `own`: zeroed memory for this rank's log. This memory is part of an own array of `memory`, at the same offset on
  /// all ranks. The ranks may have different numbers of threads. `parameters` and `memory` outlive this object.
  ShardLog(const Form& form, std::byte* own, const ParameterStore& parameters, const SharedHostMemory& memory);

  /// Begins the next update of all blocks. All ranks call it the same number of times. Errors: failed (more threads
  /// would update than the form states).
  void begin();
  /// If the block is not marked, calls `update`, which updates the block in the slots and in this rank's values. If the
  /// shard belongs to another rank, also copies the values to that rank. `first`: offset of the block in the shard of
  /// `owner`, a multiple of sum_block_floats. Threads of a parallel region may call it for different blocks.
  template <typename Update>
  void update_block(int owner, std::size_t first, const Update& update) {
    const Block block{owner, first / sum_block_floats};
    std::atomic<std::uint32_t>& mark = mark_of(block);
    if (mark.load(std::memory_order_acquire) == update_number_) return;
    open(block);
    update();
    if (owner != memory_.rank()) copy_values(block);
    mark.store(update_number_, std::memory_order_release);
  }
  /// True if another rank has begun to change slots in an update that this rank has not yet begun.
  bool another_rank_is_ahead() const;
  /// Restores the slots of the blocks of `owner` that are open and not marked. The processes that opened them have
  /// ended.
  void restore_open_blocks(int owner);

 private:
  struct Block {
    int owner;
    std::size_t number;  ///< number of the block in the owner's shard
  };
  /// The header of a thread's log. After the header follow copies of one block of each slot.
  struct alignas(64) ThreadLog {
    std::atomic<std::uint64_t> open{0};  ///< tag of the open block
  };

  std::size_t threads_of(int rank) const;
  std::byte* log_of(int rank) const { return memory_.on_rank(rank, own_); }
  std::atomic<std::uint32_t>& mark_of(const Block& block) const;
  ThreadLog& thread_log(int rank, std::size_t thread) const;
  static float* copies_of(ThreadLog& log) { return reinterpret_cast<float*>(&log + 1); }
  /// Returns a number that identifies both the block and the current update.
  std::uint64_t tag_of(const Block& block) const;
  /// Returns the elements of the block in the flat arrays.
  Slice elements_of(const Block& block) const;
  void open(const Block& block);
  void copy_values(const Block& block) const;

  Form form_;
  std::size_t blocks_;  ///< number of blocks in the largest shard
  std::byte* own_;
  const ParameterStore& parameters_;
  const SharedHostMemory& memory_;
  std::uint32_t update_number_ = 0;
};

}  // namespace carillon
