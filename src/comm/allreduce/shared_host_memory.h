// SharedHostMemory: shards the parameter update over the ranks of one host.
//
// Each rank averages its shard of the gradients and updates its shard of the parameters; the other ranks copy the
// result. Optimiser slots are stored once per host. No rank holds all averaged gradients.
//
//   write gradients -> meet -> means_of own shard, write own shard -> meet_after_update -> gather the other ranks'
//   shards
//
// Each gradient and each value moves between cores once, as in an all-reduce. Values that are read often are copied to
// each rank's own memory, because cache lines that several cores read are slow to write
// (docs/lab-notes/2026-11-21-averaging-and-sharded-update.md).
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "carillon/core/reduction.h"
#include "carillon/device/device.h"
#include "src/comm/transport/group.h"

namespace carillon {

class Members;
class SharedArrays;

/// Receives the means of the elements from `first` on. `means` is valid during the call only.
using TakeMeans = std::function<void(std::size_t first, std::span<const float> means)>;

/// An *own array* of a rank is an array in the memory that Communicator::allocate returned to this rank. The array has
/// the same offset in this memory on all ranks.
class SharedHostMemory {
 public:
  virtual ~SharedHostMemory() = default;
  /// Allocates zeroed memory that all ranks of the host share, aligned to tensor_alignment_bytes. Collective. Call it
  /// once, before the functions below. The buffer must be destroyed before the communicator.
  virtual Buffer allocate(std::size_t bytes) = 0;
  /// A barrier: returns when all ranks have called it. Earlier writes of all ranks are then visible. Collective.
  /// Errors: lost_rank if the communicator's limit passes first.
  virtual void meet() = 0;
  /// Like meet(), but does not wait for ranks with a process that has ended since the previous meeting. The lowest live
  /// rank calls finish(rank) for each ended rank and counts the ended rank as arrived. If the process of the lowest
  /// live rank ends during `finish`, the next live rank repeats the call.
  virtual void meet_after_update(const std::function<void(int rank)>& finish) = 0;
  /// size() is the number of ranks on this host. rank() is the index of this rank among them.
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Returns the shard of a rank among `count` elements: reduction_slice.
  Slice shard(std::size_t count, int of_rank) const { return reduction_slice(count, of_rank, size()); }
  Slice shard(std::size_t count) const { return shard(count, rank()); }
  /// Translates `own`, an address in this rank's own array, to the same offset in the own array of `rank`.
  virtual std::byte* on_rank(int rank, std::byte* own) const = 0;
  /// Computes the mean over the ranks for each element of `values`, which is a part of an own array. All threads of
  /// this rank call `take` concurrently, with blocks of means that fit the first-level cache, or with larger ranges if
  /// there is only one rank. `first` counts from the start of `values`. The means have the same bits as the
  /// communicator's means. No rank may write these elements during the call.
  virtual void means_of(std::span<const float> values, const TakeMeans& take) const = 0;
  /// Copies the other ranks' shards of `values` to this rank. `values` is an own array. No rank may write its shard
  /// during the call.
  virtual void gather(std::span<float> values) const = 0;
};

/// Makes the SharedHostMemory of a run on one host. `host`: all ranks of the run. `own`: the own arrays of the
/// communicator, null until they are allocated. `host` and `own` outlive the result. `factor` multiplies the sums.
std::unique_ptr<SharedHostMemory> make_shared_host_memory(const Members& host, const std::unique_ptr<SharedArrays>& own,
                                                          SumOrder order, float factor);

}  // namespace carillon
