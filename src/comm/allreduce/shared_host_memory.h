// SharedHostMemory: how towers that compute in the memory of one host share out the work on what is equal on all of
// them.
//
// Each makes the means of its shard of the gradients and what comes of them; the others take that. What nobody else
// needs in the step, such as an optimiser's slots, is kept once for all towers. Nobody has all means.
//
//   write gradients -> meet -> means_of own shard, write own shard -> meet -> gather the others' shards
//
// Between cores move a gradient once and a value once, as in averaging; what is read often is gathered into memory of
// the tower's own, since lines that several cores read are slow to write (docs/benchmarks.md has the comparison).
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "carillon/device/device.h"
#include "src/comm/transport/group.h"

namespace carillon {

/// Is given the means of the elements from `first` on, which are gone when it returns.
using TakeMeans = std::function<void(std::size_t first, std::span<const float> means)>;

/// An own array is one in the communicator's `allocate`d memory, at the same place there on all towers.
class SharedHostMemory {
 public:
  virtual ~SharedHostMemory() = default;
  /// Collective: zeroed memory, aligned to tensor_alignment_bytes, the same for all towers. Called once, before what
  /// follows; freed before the communicator.
  virtual Buffer allocate(std::size_t bytes) = 0;
  /// Returns when all towers have come here; what they wrote before can be read from then on. Collective. Errors:
  /// failed, when the communicator's limit passes before.
  virtual void meet() = 0;
  /// The part of `count` elements that is this tower's: as reduction_slice.
  virtual Slice shard(std::size_t count) const = 0;
  /// Gives `take` the mean over the towers of every element of `values`, of an own array: in blocks that stay in a
  /// level 1 cache, `first` counted from the begin of `values`, on this rank's threads at once. The sums are the
  /// communicator's, bit for bit. Nobody writes those elements meanwhile.
  virtual void means_of(std::span<const float> values, const TakeMeans& take) const = 0;
  /// Replaces the other towers' shards of `values`, an own array, by what these have there. Nobody writes his shard
  /// meanwhile.
  virtual void gather(std::span<float> values) const = 0;
};

}  // namespace carillon
