// WorkspaceLayout: divides a CPU device's workspace into pieces for one pass.
#pragma once

#include <cstddef>
#include <cstdint>

#include "carillon/core/tensor.h"

namespace carillon {

/// Divides memory into aligned pieces; sizes in floats.
class WorkspaceLayout {
 public:
  /// Returns the offset of the piece.
  std::size_t add(std::int64_t floats) {
    const std::size_t at = total_;
    total_ += aligned_float_count(static_cast<std::size_t>(floats));
    return at;
  }
  std::size_t bytes() const { return total_ * sizeof(float); }

 private:
  std::size_t total_ = 0;
};

}  // namespace carillon
