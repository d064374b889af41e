// WaitLimit: how long a rank waits for other ranks before the run fails.
#pragma once

#include <limits>
#include <span>
#include <string_view>

namespace carillon {

/// Observes the waits of a rank on its main thread. It may end a wait by throwing.
class WaitObserver {
 public:
  virtual ~WaitObserver() = default;
  /// Called about ten times a second while the rank waits for `ranks` (at least one) in `operation`. `seconds`: time
  /// that the rank has waited so far.
  virtual void still_waiting(std::string_view operation, std::span<const int> ranks, double seconds) = 0;
  /// Called after each wait, even if `still_waiting` was not called. `seconds`: duration of the wait.
  virtual void waited(double seconds) = 0;
  /// Whether the process of this rank has ended without an error of its own (it was killed or crashed). False if
  /// unknown.
  virtual bool has_ended(int /*rank*/) const { return false; }
};

/// The limit applies to every wait for other ranks, except waits inside NCCL, which have no limit. A longer wait throws
/// Error(lost_rank) with the missing ranks: "waited 30 s for rank 2 in averaging". Shared memory and messages are
/// unusable afterwards, so the run must end.
struct WaitLimit {
  double seconds = std::numeric_limits<double>::infinity();
  WaitObserver* observer = nullptr;  ///< outlives the waits; may be null
};

}  // namespace carillon
