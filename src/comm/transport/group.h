// Group: collective operations of ranks on float arrays in host memory.
//
// Every call is collective: all members make the same calls in the same order, with the same number of values and the
// same root. Every transport sums each element in rank order, ((v0 + v1) + v2) + ..., so all transports compute equal
// bits. A message group can also sum as a binary tree (core/reduction.h). Errors: failed (MPI fails), lost_rank (a wait
// exceeds the WaitLimit of the group's members).
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>

#include "carillon/core/reduction.h"

namespace carillon {

/// Elements [begin, end) of an array.
struct Slice {
  std::size_t begin, end;
};

/// Returns the part of `count` elements that rank `rank` of `size` ranks sums. Slices are contiguous and begin at
/// multiples of 16 elements. The last slices may be empty.
inline Slice reduction_slice(std::size_t count, int rank, int size) {
  constexpr std::size_t unit = 16;
  const std::size_t units = (count + unit - 1) / unit;
  const auto edge = [&](int part) { return std::min(units * part / size * unit, count); };
  return {edge(rank), edge(rank + 1)};
}

class Members;

class Group {
 public:
  /// An operation in progress. Its values must not be used before `wait` returns. The operation must be destroyed
  /// before its group.
  class Pending {
   public:
    virtual ~Pending() = default;
    virtual void wait() = 0;
  };

  virtual ~Group() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Copies the values of `root` to all members.
  virtual void broadcast(std::span<float> values, int root) = 0;
  /// In place: the slice of this rank in `values` becomes the sum over all ranks. The other slices are undefined.
  virtual std::unique_ptr<Pending> start_reduce_scatter(std::span<float> values) = 0;
  /// In place: copies every rank's own slice of `values` to all ranks.
  virtual std::unique_ptr<Pending> start_all_gather(std::span<float> values) = 0;

  void reduce_scatter(std::span<float> values) { start_reduce_scatter(values)->wait(); }
  void all_gather(std::span<float> values) { start_all_gather(values)->wait(); }
  /// Replaces every element by its sum over all ranks.
  void all_reduce(std::span<float> values) {
    reduce_scatter(values);
    all_gather(values);
  }
};

// The kinds of groups, one file each. Construction is collective.

/// Makes a group for any ranks. `order`: summation order. `wire`: format of the messages of reduce-scatter and
/// all-gather.
std::unique_ptr<Group> make_message_group(Members members, SumOrder order = SumOrder::sequential,
                                          Wire wire = Wire::fp32);

/// Makes a group for the ranks of one host.
std::unique_ptr<Group> make_shared_memory_group(Members members);

}  // namespace carillon
