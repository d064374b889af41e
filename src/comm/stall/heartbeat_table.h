// Activity table: what each rank of a host does, in memory that all of them read.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "src/comm/mpi/members.h"
#include "src/comm/stall/stall_detector.h"
#include "src/comm/transport/shared_arrays.h"

namespace carillon {

/// In seconds of a clock that all processes of a host share.
double board_time();

/// Adds up for how long something has not changed, as far as the looking process ran itself: a gap between two looks
/// counts as `max_gap` seconds at most.
class Stillness {
 public:
  explicit Stillness(double max_gap) : max_gap_(max_gap) {}
  /// Seconds that `sign` has been what it is.
  double seconds(std::uint64_t sign, double time);

 private:
  double max_gap_, seconds_ = 0.0, looked_ = 0.0;
  std::uint64_t sign_ = std::numeric_limits<std::uint64_t>::max();
};

class HeartbeatTable {
 public:
  /// A rank writes its own entry alone, but for `run_ends` of the first.
  struct Entry {
    std::atomic<std::uint64_t> signs{0};  ///< of life: phases entered, looks taken while it waits, waits over
    std::atomic<double> since{0.0};       ///< when the phase began
    std::atomic<std::int64_t> step{0};
    std::atomic<int> phase{0};
    std::atomic<int> waits_for{-1};  ///< a rank, while this one waits
    std::atomic<double> worked{0.0};
    std::atomic<int> process{0};
    std::atomic<std::uint64_t> process_space{0};  ///< in which that number is its own
    std::atomic<bool> run_ends{false};            ///< somebody has said why
  };
  static_assert(std::atomic<double>::is_always_lock_free, "entries are shared between processes");

  /// Collective; `host` outlives this.
  explicit HeartbeatTable(const Members& host);

  int size() const { return host_.size(); }
  int own_member() const { return host_.rank(); }
  /// The number in the run of member `member` of this host.
  int rank(int member) const { return host_.bounded_wait().ranks()[member]; }
  bool is_here(int rank) const;
  Entry& entry(int member) const { return *reinterpret_cast<Entry*>(arrays_.array(member)); }
  Entry& own() const { return entry(own_member()); }

  /// The number by which this process knows that of a member; 0 where it does not, as in another container.
  int process(int member) const;

  /// The main thread gets on.
  void give_sign() const {
    own().signs.store(own().signs.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

  /// Whether nobody of this host has ended the run before: then the caller is to say why, and do it.
  bool is_first_to_end() const { return !entry(0).run_ends.exchange(true); }
  bool run_ends() const { return entry(0).run_ends; }

  /// "in data of step 812 for 61 s", "in compute of step 812 for 61 s, waiting for rank 2"
  std::string what_it_does(int member) const;
  /// "rank 2 stands still, stopped by a signal: it has been in data of step 812 for 61 s"
  std::string stands_still(int member) const;
  /// Another member, stopped or behind this one by steps or phases.
  std::optional<int> who_holds_up() const;

 private:
  const Members& host_;
  SharedArrays arrays_;
};

}  // namespace carillon
