// SumTree: sums flat arrays in the binary tree of core/sum_in_order.h. The arrays are added in any order.
//
// If an array's neighbour is present, their sum moves up the tree. Otherwise the array waits for its neighbour. So the
// tree stores about as many arrays as there are threads and tree levels.
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
  /// The sum of `leaves` arrays of `count` floats. `device` is a CPU and outlives this.
  SumTree(int leaves, std::size_t count, Device& device) : leaves_(leaves), count_(count), device_(device) {}

  /// Adds array number `leaf`. Each once, in any order, from several threads concurrently.
  void add(int leaf, std::span<const float> values);
  /// After all arrays are added: out = factor * sum. Then a new sum may begin. Errors: failed (an array is missing).
  void finish(float factor, std::span<float> out);

 private:
  /// Block number `index` of 2^level leaves.
  struct Node {
    int level = 0, index = 0;
    auto operator<=>(const Node&) const = default;
    Node neighbour() const { return {level, index ^ 1}; }
    Node parent() const { return {level + 1, index / 2}; }
  };
  // Require the mutex:
  /// Removes and returns the array of `node`. An empty buffer: not present.
  Buffer remove(Node node);
  Buffer spare_buffer();

  const int leaves_;
  const std::size_t count_;
  Device& device_;
  std::mutex mutex_;
  std::map<Node, Buffer> kept_;
  std::vector<Buffer> spare_;
};

}  // namespace carillon
