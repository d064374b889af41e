// BufferCheck: finds buffers (running statistics) that change in memory between the forward pass of a step, which
// computes them, and its update. A change in the forward pass itself is not found.
#pragma once

#include <algorithm>
#include <vector>

#include "carillon/graph/buffers.h"
#include "src/step/update/memory_checksums.h"

namespace carillon {

class BufferCheck {
 public:
  /// `buffers`, in the host's memory, outlive this.
  explicit BufferCheck(const BufferStore& buffers) : buffers_(buffers), copy_(buffers.values().size()) {}

  void record() { std::ranges::copy(buffers_.values(), copy_.begin()); }
  /// Errors: ChangedInMemory (a buffer has changed since `record`).
  void compare() const { check_equal_bytes(buffers_.values(), copy_, "a running statistic"); }

 private:
  const BufferStore& buffers_;
  std::vector<float> copy_;
};

}  // namespace carillon
