// SumTree: the sum of flat arrays as the binary tree of core/sum_in_order.h, from arrays that come in any order.
//
// An array that comes is added to its neighbour's if that is there, and the sum goes up the tree; else it is kept until
// the neighbour comes. So hardly more arrays are kept than threads bring, and the tree has levels.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "carillon/device/device.h"

namespace carillon {

class SumTree {
 public:
  /// Of `leaves` arrays of `count` floats in the memory of `device`, a CPU, which outlives this.
  SumTree(int leaves, std::size_t count, Device& device) : leaves_(leaves), count_(count), device_(device) {}

  /// Array number `leaf`, whose values are free when it returns. Each once, in any order, by several threads at once.
  void add(int leaf, std::span<const float> values);
  /// After all: out = factor * sum; the next sum can then begin. Errors: failed (an array is missing).
  void finish(float factor, std::span<float> out);

 private:
  /// A block of 2^level leaves, the index'th of its size.
  struct Node {
    int level = 0, index = 0;
    auto operator<=>(const Node&) const = default;
    Node neighbour() const { return {level, index ^ 1}; }
    Node parent() const { return {level + 1, index / 2}; }
  };
  // With the mutex held:
  /// The array of `node`, no longer kept; nothing where it is not there.
  Buffer take(Node node);
  Buffer take_spare();

  const int leaves_;
  const std::size_t count_;
  Device& device_;
  std::mutex mutex_;
  std::map<Node, Buffer> kept_;
  std::vector<Buffer> spare_;
};

}  // namespace carillon
