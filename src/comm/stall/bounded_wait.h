// BoundedWait: the only loop in which a rank waits for other ranks.
//
// It polls `spins` times, then yields the core between polls, because there may be more ranks than cores. After that,
// every 16th poll makes MPI progress and, if there is a limit or an observer, reads the clock. If the condition already
// holds, the wait costs one poll.
#pragma once

#include <sched.h>

#include <chrono>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/core/parallel.h"
#include "src/comm/stall/wait_limit.h"

namespace carillon {

/// Makes MPI progress. Call it while this rank waits outside MPI: peers that wait inside MPI may need this rank's
/// progress.
void progress_mpi();

/// "rank 3", "ranks 1, 2 and 3", "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 12 more".
std::string rank_list(std::vector<int> ranks);

class BoundedWait {
 public:
  /// `ranks`: [members] the rank number that error messages use.
  BoundedWait(WaitLimit limit, std::vector<int> ranks) : limit_(limit), ranks_(std::move(ranks)) {}

  WaitLimit limit() const { return limit_; }
  void set_limit(WaitLimit limit) { limit_ = limit; }
  const std::vector<int>& ranks() const { return ranks_; }

  /// Returns as soon as `arrived()` is true. Polls `spins` times before it yields the core. `missing()` returns the
  /// members that have not arrived. Errors: lost_rank if the limit passes first; the message names the missing members
  /// and the operation.
  template <typename Arrived, typename Missing>
  void wait(std::string_view operation, int spins, const Arrived& arrived, const Missing& missing) const {
    if (arrived()) return;
    const bool timed = std::isfinite(limit_.seconds) || limit_.observer != nullptr;
    const auto start = timed ? Clock::now() : Clock::time_point{};
    const auto passed = [&] { return timed ? std::chrono::duration<double>(Clock::now() - start).count() : 0.0; };
    if (!arrives_soon(spins, arrived)) {
      double next_call = observe_seconds;
      for (unsigned polls = 1; !arrived(); ++polls) {
        sched_yield();
        if (polls % 16 != 0) continue;
        progress_mpi();
        const double seconds = passed();
        if (seconds > limit_.seconds) give_up(operation, missing());
        if (limit_.observer != nullptr && seconds > next_call) {
          observe(operation, missing(), seconds);
          next_call = seconds + observe_seconds;
        }
      }
    }
    if (limit_.observer != nullptr) limit_.observer->waited(passed());
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr double observe_seconds = 0.1;  ///< between calls of the observer

  template <typename Arrived>
  static bool arrives_soon(int spins, const Arrived& arrived) {
    for (int spin = 1; spin < spins; ++spin) {
      spin_pause();
      if (arrived()) return true;
    }
    return false;
  }

  /// Throws the error about the missing `members`. Returns if `members` is empty, because the last one has just
  /// arrived.
  void give_up(std::string_view operation, const std::vector<int>& members) const;
  /// Calls the observer. Does nothing if `members` is empty, because the last one has just arrived.
  void observe(std::string_view operation, const std::vector<int>& members, double seconds) const;

  /// The rank numbers of the members for error messages.
  std::vector<int> ranks_of(const std::vector<int>& members) const;

  WaitLimit limit_;
  std::vector<int> ranks_;
};

}  // namespace carillon
