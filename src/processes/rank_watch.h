// RankWatch: ends mpirun soon after all its ranks have ended.
//
// If a rank fails, Open MPI 4.1's mpirun pauses twice for odls_base_sigkill_timeout seconds, so that the other ranks
// can save. It pauses even if no rank is left, and it can hang at its own end. jobs/forward_signals.sh has the same
// watch in Bash.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>

namespace carillon {

class RankWatch {
 public:
  /// `mpirun`: a child of this process that starts all its ranks on this machine.
  explicit RankWatch(pid_t mpirun) : mpirun_(mpirun) {}

  /// Shortens mpirun's pauses if ranks have run and all have ended, and kills mpirun if it still hangs later. Takes up
  /// to half a second then. To be called a few times per second.
  void poll();

  /// Ends the first pause of an mpirun that has got TERM: it then sends TERM to its ranks.
  void shorten_pause() const;

 private:
  using Clock = std::chrono::steady_clock;

  pid_t mpirun_;
  bool has_seen_ranks_ = false;
  std::optional<Clock::time_point> idle_since_;
};

/// Waits up to a minute until no process of the session runs: if mpirun was killed, its ranks still save.
void wait_for_session(pid_t session);

}  // namespace carillon
