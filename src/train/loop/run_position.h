// RunPosition: the progress of a run, which each step advances and a checkpoint stores.
#pragma once

#include <cstdint>

namespace carillon {

struct RunPosition {
  std::int64_t step = 0;              ///< updates applied
  std::uint64_t stream_position = 0;  ///< position of the next sample
  bool resumed = false;
};

}  // namespace carillon
