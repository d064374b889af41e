// is_last_block: lets the last block of a kernel that finishes continue with the results of the others.
#pragma once

#include <cstdint>

#include "carillon/core/host_device.h"

namespace carillon {

/// One thread of each of `blocks` blocks calls it after a barrier. Returns true in the last block: its threads see the
/// writes of the others after the next barrier. `done`: 0 before the first call and after the last.
CARILLON_HOST_DEVICE inline bool is_last_block(std::uint32_t* done, int blocks) {
  if (fetch_increment(done) + 1 != static_cast<std::uint32_t>(blocks)) return false;
  *done = 0;
  return true;
}

}  // namespace carillon
