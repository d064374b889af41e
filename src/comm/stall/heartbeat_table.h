// HeartbeatTable: the phase, step and heartbeat of each rank of a host, in shared memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "src/comm/mpi/members.h"
#include "src/comm/stall/stall_detector.h"
#include "src/comm/transport/shared_memory.h"

namespace carillon {

/// Returns the time in seconds, by a clock that all processes of a host share.
double table_time();

/// Returns true if the phase, a Phase as int, occurs in every step.
bool is_step_phase(int phase);

/// Measures how long a counter has not changed. Ignores time in which the measuring process did not run: a gap between
/// two calls counts as at most `max_gap` seconds.
class Stillness {
 public:
  explicit Stillness(double max_gap) : max_gap_(max_gap) {}
  /// Returns the seconds since the counter last changed. `sign`: its present value; `time`: the present table_time.
  double seconds(std::uint64_t sign, double time);

 private:
  double max_gap_, seconds_ = 0.0, looked_ = 0.0;
  std::uint64_t sign_ = std::numeric_limits<std::uint64_t>::max();
};

class HeartbeatTable {
 public:
  /// Each rank writes only its own entry. Exception: every rank may write `ended_by` and `is_saved` of entry 0.
  struct Entry {
    std::atomic<std::uint64_t> signs{0};  ///< number of heartbeats (StallDetector)
    std::atomic<double> since{0.0};       ///< start of the phase (table_time)
    std::atomic<std::int64_t> step{0};
    std::atomic<int> phase{0};
    std::atomic<int> waits_for{-1};               ///< a rank for which this rank waits; -1: none
    std::atomic<double> worked{0.0};              ///< seconds in the phases data and compute, without waits
    std::atomic<int> process{0};                  ///< process ID
    std::atomic<std::uint64_t> process_space{0};  ///< PID namespace of `process`
    std::atomic<int> failed_with{0};              ///< exit code of the error that ends this rank and the run; 0: none
    std::atomic<int> ended_by{-1};                ///< the member that ends the run, and prints the reason
    std::atomic<bool> is_saved{false};            ///< true: a member has finished its attempt to save
  };
  static_assert(std::atomic<double>::is_always_lock_free, "entries are shared between processes");

  /// Collective. `host` outlives this object.
  explicit HeartbeatTable(const Members& host);

  int size() const { return host_.size(); }
  int own_member() const { return host_.rank(); }
  /// Returns the rank in the run of member `member` of this host.
  int rank(int member) const { return host_.bounded_wait().ranks()[member]; }
  /// Returns the member number of rank `rank` of the run, or nullopt if this rank is on another host.
  std::optional<int> member(int rank) const;
  Entry& entry(int member) const { return *reinterpret_cast<Entry*>(arrays_.array(member)); }
  Entry& own() const { return entry(own_member()); }

  /// Returns the process ID of a member as seen by this process, or 0 if it is unknown, e.g. in another container.
  int process(int member) const;

  /// Records a heartbeat of the main thread.
  void beat() const { own().signs.store(own().signs.load(std::memory_order_relaxed) + 1, std::memory_order_release); }

  /// True if this rank is in a phase that is part of each step.
  bool is_in_step() const { return is_step_phase(own().phase); }

  /// Returns true only for the first caller on this host. The first caller must save what it can, print the reason and
  /// end the run.
  bool is_first_to_end() const;
  bool run_ends() const { return entry(0).ended_by >= 0; }
  bool is_ended_by_this_member() const { return entry(0).ended_by == own_member(); }
  bool ending_member_has_ended() const { return run_ends() && has_ended(entry(0).ended_by); }
  void mark_saved() const { entry(0).is_saved = true; }
  bool is_saved() const { return entry(0).is_saved; }

  /// True if the process of a member has ended. Returns false if this is unknown, for example because the process runs
  /// in another container.
  bool has_ended(int member) const;
  /// True if the process of a member has ended without reporting an error (it was killed or crashed). Another rank may
  /// then complete the member's update.
  bool was_killed(int member) const { return has_ended(member) && entry(member).failed_with == 0; }
  /// Returns the lowest member with an ended process, or nullopt if no process has ended.
  std::optional<int> ended_member() const;
  /// Returns the lowest member that ends because of an error, or nullopt if there is no such member. That member prints
  /// the error itself.
  std::optional<int> failed_member() const;
  /// True if the processes of all lower members have ended.
  bool is_lowest() const;
  /// True if a member ends the run, a member has failed, or the process of a member has ended. Async-signal-safe.
  bool has_failed_member() const;

  /// "data of step 812"
  std::string place_text(int member) const;
  /// "in data of step 812 for 61 s", "in compute of step 812 for 61 s, waiting for rank 2"
  std::string activity_text(int member) const;
  /// "rank 2 hangs, stopped by a signal: it has been in data of step 812 for 61 s"
  std::string stall_text(int member) const;
  /// Returns the member that probably delays this member. If a signal has stopped another member, this is that member.
  /// Otherwise it is the member that is furthest behind this member in steps and phases. Returns nullopt if no other
  /// member is stopped or behind.
  std::optional<int> slowest_member() const;

 private:
  const Members& host_;
  SharedArrays arrays_;
};

}  // namespace carillon
