// StallDetector: what every rank of a run is doing, and an end for a run in which one stands still.
//
// Each rank tells its phase on a table in its host's memory; entering the next one is its sign of life, or `heartbeat`.
// A rank that waits for others looks at the table now and then: whoever gives no sign for longer than the limit, and
// does not wait itself, has stalled, and the wait ends in an Error that names it. One rank of a host says so, and ends
// the run; the others, who may wait for it in turn, wait for their end and make it themselves if none comes. A rank
// that stands still without waiting (a file system that hangs, a GPU that waits for others) is ended by a thread of its
// own. A rank that gives signs, however slow it is, is never stalled; time in which the looking process did not run
// itself, as in a suspended job, does not count.
//
// Of ranks on other hosts nothing is known but that they have not come: a wait for these alone ends after a time and a
// half. Ranks that all wait, for each other, are not found.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "src/comm/mpi/mpi.h"
#include "src/comm/stall/wait_limit.h"

namespace carillon {

class HeartbeatTable;

enum class Phase : int { start, data, compute, evaluation, checkpoint, finish };
/// "data"; for messages.
std::string_view name_of(Phase phase);

/// A rank of this host.
struct RankActivity {
  int rank = 0;
  Phase phase = Phase::start;
  std::int64_t step = 0;
  double seconds_in_phase = 0.0;
  double worked_seconds = 0.0;  ///< in data and compute since the start, without what it waited for others
};

struct StallDetectorSettings {
  /// How long a rank may give no sign in data and compute; in the other phases four times that, at the start twelve
  /// times. Infinity: for ever.
  double stall_seconds = std::numeric_limits<double>::infinity();
  /// Ends this process when its main thread stands still, a quarter later than others would name it.
  bool ends_own_stall = true;
  /// The main thread may wait for others without the stall detector's knowing, as for a GPU that waits in NCCL: then
  /// the rank of this host that is stopped or furthest behind is named, too, and in data and compute it may take four
  /// times as long.
  bool waits_unseen = false;
  std::string program = {};  ///< whose lines it writes
  /// Is given the line that `look` would throw, first: for an end that waits for no thread of this process.
  std::function<void(const std::string& line)> end_run = nullptr;
};

class StallDetector final : public WaitObserver {
 public:
  /// From here on `mpi`, which outlives this, lets it look at its waits, in the place of a limit that they had; to the
  /// end, when they have none. A USR2 has this process write its main thread's stack on stderr, here and after.
  /// Collective, as the destructor is.
  StallDetector(const Mpi& mpi, const StallDetectorSettings& settings);
  ~StallDetector() override;
  StallDetector(const StallDetector&) = delete;
  StallDetector& operator=(const StallDetector&) = delete;

  /// This rank gets on. On the main thread; costs some 50 ns.
  void enter(Phase phase, std::int64_t step);
  /// So it does within a phase that takes long.
  void heartbeat();
  /// What is said of a rank that stands still in the data of a step: describe(rank, step), "whose batch begins with
  /// a.tfrecord: record 12". Called in a thread of its own or in `look`; nothing: nothing more.
  using DescribeData = std::function<std::string(int rank, std::int64_t step)>;
  void describe_data(DescribeData describe);
  /// The ranks of this host, by rank.
  std::vector<RankActivity> activities() const;

  /// Errors: failed, naming who stands still, where and since when.
  void look(std::string_view operation, std::span<const int> ranks, double seconds) override;
  void waited(double seconds) override;

 private:
  void end_run(const std::string& line) const;
  std::string hosts_of(std::span<const int> ranks) const;
  std::string data_of(int member) const;

  class OwnThread;
  struct Looks;

  const Mpi& mpi_;
  StallDetectorSettings settings_;
  double waited_ = 0.0;             ///< in the phase in hand
  bool looked_ = false;             ///< in the wait in hand
  bool others_may_be_long_ = true;  ///< in a phase that is no part of a step: until a whole step is done
  std::unique_ptr<HeartbeatTable> table_;
  std::unique_ptr<Looks> looks_;
  std::vector<std::string> hosts_;  ///< by rank
  mutable std::mutex describe_mutex_;
  DescribeData describe_data_;
  std::unique_ptr<OwnThread> thread_;
};

}  // namespace carillon
