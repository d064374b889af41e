// StallDetector: ends a run in which a rank hangs, and names that rank, its phase and its step.
//
// Each rank writes its phase and step to a table in shared memory of its host (HeartbeatTable). A rank has a heartbeat
// when it enters a phase, when a wait ends, and when a long phase calls `heartbeat`. In a wait, it has about ten
// heartbeats a second. A rank that waits for other ranks reads the table. A rank has stalled if it has had no heartbeat
// for longer than the limit and does not itself wait for other ranks. The wait then throws an Error that names the
// stalled rank. One rank per host prints the error and ends the run. The other ranks wait for this rank to end the run,
// and exit on their own if this takes too long. If a rank hangs without waiting for peers, for example in the file
// system or on the GPU, the detector's thread ends that rank.
//
// A slow rank with heartbeats never counts as stalled. Time in which the reading process itself did not run (a
// suspended job) does not count. A rank does not know the heartbeats of other hosts. If all ranks for which it waits
// are on other hosts, its wait fails after 1.5 times the limit of the phase that those ranks may be in. The detector
// does not detect ranks that all wait for each other.
//
// RunEnd ends the run. RunEnd also ends the run if the process of a rank has ended.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/comm/mpi/mpi.h"
#include "src/comm/stall/run_end.h"

namespace carillon {

class HeartbeatTable;

enum class Phase : int { start, data, compute, evaluation, checkpoint, finish };
/// Returns the name of the phase in messages: "data".
std::string_view name_of(Phase phase);

/// The current state of a rank of this host.
struct RankActivity {
  int rank = 0;
  Phase phase = Phase::start;
  std::int64_t step = 0;
  double seconds_in_phase = 0.0;
  double worked_seconds = 0.0;  ///< time in the phases data and compute since the start, without waits for other ranks
};

struct StallDetectorSettings {
  /// Longest time without a heartbeat in the phases `data` and `compute`. The limit of the phase `start` is 12 times as
  /// long. The limit of all other phases is 4 times as long. Infinity: no limit.
  double stall_seconds = std::numeric_limits<double>::infinity();
  /// If the main thread of this process hangs, end the process after 1.25 times the limit.
  bool ends_own_stall = true;
  /// The main thread may wait for peers without calling the observer, for example if it waits for a GPU that waits in
  /// NCCL. In this case, the limit in data and compute is 4 times as long. The error also names the rank of this host
  /// that is stopped or furthest behind.
  bool waits_unseen = false;
  std::string program = {};  ///< name of the program in error lines
  /// Called with the error line before `still_waiting` throws. The function may exit without waiting for the other
  /// threads of this process.
  std::function<void(const std::string& line)> end_run = nullptr;
  /// Returns true if the launcher ends the run, so that a rank should save and exit. The argument is the duration of
  /// the rank's wait in seconds. Null: never.
  std::function<bool(double waited)> should_save_alone = nullptr;
  /// Prints the error line, either about a hang of this rank or about a rank with an ended process. Then this process
  /// exits with `lost_rank`, which tells the launcher that the run ends. Any thread may call it; it makes no MPI calls.
  /// Null: the detector writes a hang to stderr, and `still_waiting` throws if a process has ended.
  std::function<void(const std::string& line)> print = nullptr;
};

class StallDetector final : public WaitObserver {
 public:
  /// The constructor starts to observe the waits of `mpi`. The stall detector then limits these waits, and their
  /// earlier WaitLimit no longer applies. `mpi` outlives this object. After destruction, the waits have no limit. The
  /// constructor also makes SIGUSR2 write the stack of the main thread to stderr. Construction and destruction are
  /// collective.
  StallDetector(const Mpi& mpi, const StallDetectorSettings& settings);
  ~StallDetector() override;
  StallDetector(const StallDetector&) = delete;
  StallDetector& operator=(const StallDetector&) = delete;

  /// Enters a phase; counts as a heartbeat. Main thread only; costs about 50 ns.
  void enter(Phase phase, std::int64_t step);
  /// Records a heartbeat within a long phase. Main thread only.
  void heartbeat();
  /// Records that an error with this code ends this rank, and therefore the run. The other ranks of the host then
  /// neither save nor print. They exit with the same code after the process of this rank has ended.
  void mark_failure(ExitCode code);
  /// Sets how to save the last completed step before the run ends. If this rank itself hangs, nothing is saved.
  void save_before_exit(SaveBeforeExit save) { run_end_.save_before_exit(std::move(save)); }
  /// True if a rank of this host ends the run, a rank has failed, or the process of a rank has ended. A signal handler
  /// may call this.
  bool has_failed_rank() const;
  /// Returns text about the data of a step, for the error line of a rank that hangs in the data phase. For example,
  /// describe(rank, step) returns "whose batch begins with a.tfrecord: record 12". The text may be empty.
  /// `still_waiting` and the detector's own thread call it.
  using DescribeData = std::function<std::string(int rank, std::int64_t step)>;
  void describe_data(DescribeData describe);
  /// Returns the states of the ranks of this host, by rank.
  std::vector<RankActivity> activities() const;

  /// If the wait cannot succeed, ends it with an error. Errors: lost_rank (a rank has stalled or its process has ended;
  /// the message names the rank, its phase and its step).
  void still_waiting(std::string_view operation, std::span<const int> ranks, double seconds) override;
  void waited(double seconds) override;
  bool has_ended(int rank) const override;

 private:
  std::string data_of(int member) const;

  class OwnThread;
  struct Looks;

  const Mpi& mpi_;
  StallDetectorSettings settings_;
  double waited_ = 0.0;                   ///< seconds in the current phase
  bool looked_ = false;                   ///< `still_waiting` was called in the current wait
  Phase phase_of_others_ = Phase::start;  ///< the longest phase in which other ranks may be, until a whole step is done
  std::unique_ptr<HeartbeatTable> table_;
  std::unique_ptr<Looks> looks_;
  RunEnd run_end_;
  mutable std::mutex describe_mutex_;
  DescribeData describe_data_;
  std::unique_ptr<OwnThread> thread_;
};

}  // namespace carillon
