// BoundedWait: the one loop in which a rank waits for others.
//
// It looks a number of times in a row, then lets other processes have the core between looks, since ranks may be more
// than cores. Of these later looks every 16th lets messages move on and reads the clock, if there is a limit or a
// stall detector. A wait that is over at once costs no more than its look.
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

/// Lets MPI's messages move on. To be called by who waits for something else: ranks that are still inside MPI may need
/// this one's part.
void progress_mpi();

/// "rank 3", "ranks 1, 2 and 3", "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 12 more".
std::string rank_list(std::vector<int> ranks);

class BoundedWait {
 public:
  /// `ranks`: by member, the number by which errors call it.
  BoundedWait(WaitLimit limit, std::vector<int> ranks) : limit_(limit), ranks_(std::move(ranks)) {}

  WaitLimit limit() const { return limit_; }
  void set_limit(WaitLimit limit) { limit_ = limit; }
  const std::vector<int>& ranks() const { return ranks_; }

  /// Returns once `arrived()` holds; looks `spins` times before it lets others have the core. `missing()`: the members
  /// that have not arrived. Errors: failed, naming those and the operation, when the limit passes first.
  template <typename Arrived, typename Missing>
  void wait(std::string_view operation, int spins, const Arrived& arrived, const Missing& missing) const {
    if (arrived()) return;
    const bool timed = std::isfinite(limit_.seconds) || limit_.stall_detector != nullptr;
    const auto start = timed ? Clock::now() : Clock::time_point{};
    const auto passed = [&] { return timed ? std::chrono::duration<double>(Clock::now() - start).count() : 0.0; };
    if (!arrives_soon(spins, arrived)) {
      double next_look = look_seconds;
      for (unsigned looks = 1; !arrived(); ++looks) {
        sched_yield();
        if (looks % 16 != 0) continue;
        progress_mpi();
        const double seconds = passed();
        if (seconds > limit_.seconds) give_up(operation, missing());
        if (limit_.stall_detector != nullptr && seconds > next_look) {
          show(operation, missing(), seconds);
          next_look = seconds + look_seconds;
        }
      }
    }
    if (limit_.stall_detector != nullptr) limit_.stall_detector->waited(passed());
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr double look_seconds = 0.1;  ///< between a stall detector's looks

  template <typename Arrived>
  static bool arrives_soon(int spins, const Arrived& arrived) {
    for (int spin = 1; spin < spins; ++spin) {
      spin_pause();
      if (arrived()) return true;
    }
    return false;
  }

  /// Throws unless `members` is empty: then the last of them has just come.
  void give_up(std::string_view operation, const std::vector<int>& members) const;
  /// To the stall detector, unless the last of them has just come.
  void show(std::string_view operation, const std::vector<int>& members, double seconds) const;

  /// What errors call the members.
  std::vector<int> ranks_of(const std::vector<int>& members) const;

  WaitLimit limit_;
  std::vector<int> ranks_;
};

}  // namespace carillon
