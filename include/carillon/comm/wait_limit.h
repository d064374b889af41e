// WaitLimit: how long a rank waits for others before it gives up.
#pragma once

#include <limits>

namespace carillon {

/// Of each rank waited for, but through NCCL, which knows no limit. A wait that takes longer ends in Error(failed),
/// "waited 30 s for rank 2 in averaging", which names the ranks that have not come. What the rank shares with others
/// cannot be used after that: the run has to end.
struct WaitLimit {
  double seconds = std::numeric_limits<double>::infinity();
};

}  // namespace carillon
