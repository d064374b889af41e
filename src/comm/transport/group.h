// Group: collective operations of ranks on float arrays in host memory.
//
// Every call is collective: all members make the same calls in the same order, with the same number of values and the
// same root. Every element is summed in rank order, ((v0 + v1) + v2) + ..., by every transport, so the bits are equal
// everywhere. A message group can also sum as a binary tree (core/sum_in_order.h).
// Errors: failed if MPI fails, lost_rank if a wait exceeds the group's limit (wait_limit.h).
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "src/comm/stall/wait_limit.h"

namespace carillon {

/// Elements [begin, end) of an array.
struct Slice {
  std::size_t begin, end;
};

/// The part of `count` elements that `rank` of `size` ranks sums. Slices are contiguous and begin at multiples of 16
/// elements. The last slices may be empty.
Slice reduction_slice(std::size_t count, int rank, int size);

class Group {
 public:
  /// An operation in progress. Its values must not be used before `wait` returns. It must be destroyed before its
  /// group.
  class Pending {
   public:
    virtual ~Pending() = default;
    virtual void wait() = 0;
  };

  virtual ~Group() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// A group of the members with the same `color` >= 0, ordered by key, then rank.
  virtual std::unique_ptr<Group> split(int color, int key) = 0;

  /// Copies the values of `root` to all members.
  virtual void broadcast(std::span<float> values, int root) = 0;
  /// In place: the slice of this rank in `values` becomes the sum over all ranks. The other slices are undefined.
  virtual std::unique_ptr<Pending> start_reduce_scatter(std::span<float> values) = 0;
  /// In place: copies every rank's own slice of `values` to all ranks.
  virtual std::unique_ptr<Pending> start_all_gather(std::span<float> values) = 0;

  void reduce_scatter(std::span<float> values) { start_reduce_scatter(values)->wait(); }
  void all_gather(std::span<float> values) { start_all_gather(values)->wait(); }
  /// Every element becomes its sum over all ranks.
  void all_reduce(std::span<float> values) {
    reduce_scatter(values);
    all_gather(values);
  }
};

}  // namespace carillon
