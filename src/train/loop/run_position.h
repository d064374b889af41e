// RunPosition: how far a run is: what a checkpoint says of it, and a step moves on.
#pragma once

#include <cstdint>

namespace carillon {

struct RunPosition {
  std::int64_t step = 0;              ///< updates applied
  std::uint64_t stream_position = 0;  ///< of the next sample
  bool resumed = false;
};

}  // namespace carillon
