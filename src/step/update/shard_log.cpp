#include "src/step/update/shard_log.h"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "carillon/core/error.h"
#include "carillon/device/device.h"

namespace carillon {
namespace {

static_assert(std::atomic<std::uint32_t>::is_always_lock_free && std::atomic<std::uint64_t>::is_always_lock_free,
              "other processes read them");

/// The header of a log. After the header follow the marks of the rank's blocks, and the logs of its threads.
struct alignas(64) Header {
  std::uint64_t threads;
};

/// Returns the number of blocks in the largest shard.
std::size_t blocks_of(const ShardLog::Form& form) {
  const int ranks = static_cast<int>(form.ranks);
  std::size_t most = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const Slice shard = reduction_slice(form.count, rank, ranks);
    most = std::max(most, shard.end - shard.begin);
  }
  return (most + sum_block_floats - 1) / sum_block_floats;
}

std::size_t bytes_of_marks(std::size_t blocks) { return aligned_float_count(blocks) * sizeof(std::uint32_t); }

std::size_t bytes_of_copies(const ShardLog::Form& form) { return form.slots * sum_block_floats * sizeof(float); }

}  // namespace

std::size_t ShardLog::bytes(const Form& form) {
  return sizeof(Header) + bytes_of_marks(blocks_of(form)) + form.threads * (sizeof(ThreadLog) + bytes_of_copies(form));
}

ShardLog::ShardLog(const Form& form, std::byte* own, const ParameterStore& parameters, const SharedHostMemory& memory)
    : form_(form), blocks_(blocks_of(form)), own_(own), parameters_(parameters), memory_(memory) {
  new (own) Header{form.threads};
}

void ShardLog::begin() {
  const auto threads = static_cast<std::size_t>(omp_get_max_threads());
  check(threads <= form_.threads, "more threads update a shard than its log has room for");
  ++update_number_;
}

std::atomic<std::uint32_t>& ShardLog::mark_of(const Block& block) const {
  std::byte* const marks = log_of(block.owner) + sizeof(Header);
  return reinterpret_cast<std::atomic<std::uint32_t>*>(marks)[block.number];
}

ShardLog::ThreadLog& ShardLog::thread_log(int rank, std::size_t thread) const {
  std::byte* const logs = log_of(rank) + sizeof(Header) + bytes_of_marks(blocks_);
  return *reinterpret_cast<ThreadLog*>(logs + thread * (sizeof(ThreadLog) + bytes_of_copies(form_)));
}

std::size_t ShardLog::threads_of(int rank) const {
  return std::launder(reinterpret_cast<const Header*>(log_of(rank)))->threads;
}

bool ShardLog::another_rank_is_ahead() const {
  std::atomic_thread_fence(std::memory_order_acq_rel);  // the thread's reads of slots must precede the loads below
  for (int rank = 0; rank < memory_.size(); ++rank) {
    for (std::size_t thread = 0; thread < threads_of(rank); ++thread) {
      if (thread_log(rank, thread).open.load(std::memory_order_acquire) >> 32 > update_number_) return true;
    }
  }
  return false;
}

std::uint64_t ShardLog::tag_of(const Block& block) const {
  return std::uint64_t{update_number_} << 32 | (static_cast<std::uint64_t>(block.owner) * blocks_ + block.number);
}

Slice ShardLog::elements_of(const Block& block) const {
  const Slice shard = memory_.shard(form_.count, block.owner);
  const std::size_t begin = shard.begin + block.number * sum_block_floats;
  return {begin, std::min(begin + sum_block_floats, shard.end)};
}

void ShardLog::open(const Block& block) {
  ThreadLog& log = thread_log(memory_.rank(), static_cast<std::size_t>(omp_get_thread_num()));
  const Slice elements = elements_of(block);
  for (std::size_t slot = 0; slot < form_.slots; ++slot) {
    std::memcpy(copies_of(log) + slot * sum_block_floats,
                parameters_.slot(static_cast<int>(slot)).data() + elements.begin,
                (elements.end - elements.begin) * sizeof(float));
  }
  log.open.store(tag_of(block), std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_acq_rel);  // the writes of the update must follow the writes of the log
}

void ShardLog::copy_values(const Block& block) const {
  const Slice elements = elements_of(block);
  float* const values = parameters_.values().data() + elements.begin;
  std::memcpy(memory_.on_rank(block.owner, reinterpret_cast<std::byte*>(values)), values,
              (elements.end - elements.begin) * sizeof(float));
}

void ShardLog::restore_open_blocks(int owner) {
  for (int rank = 0; rank < memory_.size(); ++rank) {
    for (std::size_t thread = 0; thread < threads_of(rank); ++thread) {
      ThreadLog& log = thread_log(rank, thread);
      const std::uint64_t open = log.open.load(std::memory_order_acquire), first = tag_of({owner, 0});
      if (open < first || open - first >= blocks_) continue;
      const Block block{owner, static_cast<std::size_t>(open - first)};
      if (mark_of(block).load(std::memory_order_acquire) == update_number_) continue;
      const Slice elements = elements_of(block);
      for (std::size_t slot = 0; slot < form_.slots; ++slot) {
        std::memcpy(parameters_.slot(static_cast<int>(slot)).data() + elements.begin,
                    copies_of(log) + slot * sum_block_floats, (elements.end - elements.begin) * sizeof(float));
      }
    }
  }
}

}  // namespace carillon
