// WaitLimit: how long a rank waits for others before it gives up.
#pragma once

#include <limits>
#include <span>
#include <string_view>

namespace carillon {

/// Somebody who is told of a rank's waits, on its main thread, and may end one by an exception.
class WaitObserver {
 public:
  virtual ~WaitObserver() = default;
  /// Called some times a second while the rank waits for `ranks`, one at least, in `operation`; it has waited `seconds`
  /// so far.
  virtual void look(std::string_view operation, std::span<const int> ranks, double seconds) = 0;
  /// A wait is over that took so long, whether it was looked at or not.
  virtual void waited(double seconds) = 0;
};

/// Of each rank waited for, but through NCCL, which knows no limit. A wait that takes longer ends in Error(failed),
/// "waited 30 s for rank 2 in averaging", which names the ranks that have not come. What the rank shares with others
/// cannot be used after that: the run has to end.
struct WaitLimit {
  double seconds = std::numeric_limits<double>::infinity();
  WaitObserver* stall_detector = nullptr;  ///< outlives the waits; null: nobody
};

}  // namespace carillon
