// Group: ranks that compute something together from float arrays in the host's memory.
//
// Every call is collective: all members make it, in the same order, with as many values and the same root. Sums are
// taken in rank order, ((v0 + v1) + v2) + ..., for every element, whatever carries the values: equal bits everywhere.
// (A group of messages can be made to sum as a tree, core/sum_in_order.h.)
// Errors: failed, when MPI fails, or when a wait takes longer than the group's limit (wait_limit.h).
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "src/comm/mpi/mpi.h"
#include "src/comm/stall/wait_limit.h"

namespace carillon {

/// Elements [begin, end) of an array.
struct Slice {
  std::size_t begin, end;
};

/// The part of `count` elements that rank `rank` of `size` sums: slices follow each other, at multiples of 16 elements;
/// the last ones may be empty.
Slice reduction_slice(std::size_t count, int rank, int size);

class Group {
 public:
  /// A call under way: its values belong to it until `wait` has returned. Ends before its group.
  class Pending {
   public:
    virtual ~Pending() = default;
    virtual void wait() = 0;
  };

  virtual ~Group() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Of the members that give the same `color` >= 0: a group in the order of their keys, equal keys in that of ranks.
  virtual std::unique_ptr<Group> split(int color, int key) = 0;

  /// The root's values to all.
  virtual void broadcast(std::span<float> values, int root) = 0;
  /// In place: this rank's slice of `values` becomes the sum over all ranks; the others are undefined.
  virtual std::unique_ptr<Pending> start_reduce_scatter(std::span<float> values) = 0;
  /// In place: every rank's own slice of `values` to all.
  virtual std::unique_ptr<Pending> start_all_gather(std::span<float> values) = 0;

  void reduce_scatter(std::span<float> values) { start_reduce_scatter(values)->wait(); }
  void all_gather(std::span<float> values) { start_all_gather(values)->wait(); }
  /// Every element becomes its sum over all ranks.
  void all_reduce(std::span<float> values) {
    reduce_scatter(values);
    all_gather(values);
  }
};

/// All ranks: through shared memory when they are on one host, else by messages. Ends before `mpi`. Collective.
std::unique_ptr<Group> make_group(const Mpi& mpi, WaitLimit limit = {});

}  // namespace carillon
