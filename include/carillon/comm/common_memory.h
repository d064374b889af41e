// CommonMemory: an array that all towers of a run read and write, and the means of their own arrays where one wants
// them.
//
// Towers that compute in the memory of one host keep once what is equal on all of them, and share out the work on it:
// each does its shard. What crosses from core to core is then each gradient once, and once what came of it.
//
//   write own arrays -> meet -> means_of own shard, write the shard of the common array -> meet -> read the common
//   array
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "carillon/comm/group.h"
#include "carillon/device/device.h"

namespace carillon {

/// Is given the means of the elements from `first` on, which are gone when it returns.
using TakeMeans = std::function<void(std::size_t first, std::span<const float> means)>;

class CommonMemory {
 public:
  virtual ~CommonMemory() = default;
  /// Collective: zeroed memory, aligned to tensor_alignment_bytes, the same for all towers. Called once, before what
  /// follows; freed before the communicator.
  virtual Buffer allocate(std::size_t bytes) = 0;
  /// Returns when all towers have come here; what they wrote before can be read from then on. Collective. Errors:
  /// failed, when the communicator's limit passes before.
  virtual void meet() = 0;
  /// The part of `count` elements that is this tower's: as reduction_slice.
  virtual Slice shard(std::size_t count) const = 0;
  /// Gives `take` the mean over the towers of every element of `values`, which lie in the communicator's `allocate`d
  /// memory: in blocks that stay in a level 1 cache, `first` counted from the begin of `values`, on this rank's threads
  /// at once. The sums are the communicator's, bit for bit. Between two meets.
  virtual void means_of(std::span<const float> values, const TakeMeans& take) const = 0;
};

}  // namespace carillon
