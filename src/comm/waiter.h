// Waiter: the one loop in which a rank waits for others.
//
// It looks a number of times in a row, then lets other processes have the core between looks, since ranks may be more
// than cores. Of these later looks every 16th lets messages move on and reads the clock, if there is a limit: a wait
// that is short, or has none, costs no more than a bare spin loop.
#pragma once

#include <sched.h>

#include <chrono>
#include <cmath>
#include <string_view>
#include <vector>

#include "carillon/comm/wait_limit.h"
#include "carillon/core/parallel.h"

namespace carillon {

/// Lets MPI's messages move on. To be called by who waits for something else: ranks that are still inside MPI may need
/// this one's part.
void progress_mpi();

class Waiter {
 public:
  /// `ranks`: by member, the number by which errors call it.
  Waiter(WaitLimit limit, std::vector<int> ranks) : limit_(limit), ranks_(std::move(ranks)) {}

  WaitLimit limit() const { return limit_; }
  void set_limit(WaitLimit limit) { limit_ = limit; }
  const std::vector<int>& ranks() const { return ranks_; }

  /// Returns once `arrived()` holds; looks `spins` times before it lets others have the core. `missing()`: the members
  /// that have not arrived. Errors: failed, naming those and the operation, when the limit passes first.
  template <typename Arrived, typename Missing>
  void wait(std::string_view operation, int spins, const Arrived& arrived, const Missing& missing) const {
    for (int spin = 0; spin < spins; ++spin) {
      if (arrived()) return;
      spin_pause();
    }
    const bool limited = std::isfinite(limit_.seconds);
    const auto start = limited ? Clock::now() : Clock::time_point{};
    for (unsigned looks = 1; !arrived(); ++looks) {
      sched_yield();
      if (looks % 16 != 0) continue;
      progress_mpi();
      if (limited && std::chrono::duration<double>(Clock::now() - start).count() > limit_.seconds) {
        give_up(operation, missing());
      }
    }
  }

 private:
  using Clock = std::chrono::steady_clock;

  /// Throws unless `members` is empty: then the last of them has just come.
  void give_up(std::string_view operation, const std::vector<int>& members) const;

  WaitLimit limit_;
  std::vector<int> ranks_;
};

}  // namespace carillon
