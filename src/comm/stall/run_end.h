// RunEnd: how a rank ends a run that another rank cannot continue. One rank of a host saves the last completed step,
// prints the reason and exits. The other ranks of the host exit after it.
//
// Reasons: the process of a rank of this host has ended; an error of such a rank; a rank that hangs (StallDetector);
// the launcher ends the run because a rank of another host has ended.
//
// A waiting main thread notices the end of a process of its host that it waits for. While the lowest rank of the host
// computes, its second thread notices the end of any process of the host.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/comm/mpi/mpi.h"

namespace carillon {

class HeartbeatTable;
struct StallDetectorSettings;

/// How to save the last completed step without the other ranks.
struct SaveBeforeExit {
  std::function<bool()> is_updating;   ///< main thread: an update runs, which completes without an ended rank
  std::function<bool()> stop_updates;  ///< another thread: prevents further updates; false: the main thread is in one
  std::function<std::string()> save;   ///< returns text for the error line: "; saved step 812 in DIR"
};

class RunEnd {
 public:
  /// The references outlive this. Collective.
  RunEnd(const Mpi& mpi, const HeartbeatTable& table, const StallDetectorSettings& settings);

  void save_before_exit(SaveBeforeExit save);

  // Main thread, about ten times a second in a wait of `seconds` for `ranks`.
  /// Another rank ends the run: exits after that rank has exited. If it has not saved, saves first.
  void follow() const;
  /// Ends the run if a rank of this host that the wait is for has ended, or if the launcher ends the run. Errors:
  /// failed (only without StallDetectorSettings::print).
  void look(std::string_view operation, std::span<const int> ranks, double seconds);
  /// Saves, and ends the run with this line. Requires HeartbeatTable::is_first_to_end. Errors: failed, with the line.
  [[noreturn]] void end(const std::string& line);

  // Second thread, a few times per second.
  /// As `follow`. Also exits if the rank that ends the run takes longer than a limit, for example because its file
  /// system hangs. If that is this rank, prints its line.
  void follow_on_second_thread();
  /// Ends the run as `look` does, if the main thread does not look itself: it computes, or its call of MPI does not
  /// return. `still`: seconds since its last heartbeat.
  void look_on_second_thread(double still);

  /// "waited 61 s for ranks 1 and 2 on n2 in averaging"
  std::string wait_text(std::string_view operation, std::span<const int> ranks, double seconds) const;

 private:
  std::string ended_text(int member) const;
  /// The first of the ranks that is a member of this host and has ended.
  std::optional<int> ended_among(std::span<const int> ranks) const;
  /// Whether the launcher ends the run and this rank, which has been in its step for so long, must save: a rank of
  /// another host has probably ended.
  bool should_save_alone(double seconds) const;
  /// If an error ends a rank of this host: exits with its code once its process has ended. Returns whether there is
  /// one.
  bool follow_failed_rank() const;
  /// Saves the last completed step, prints the line and exits.
  void save_and_exit(const std::string& line);
  bool stop_updates() const;
  /// Saves, and returns the line with the text of `save`. Marks it in the table if no other rank needs to save. Keeps
  /// the line for the case that the save does not end.
  std::string line_with_save(const std::string& line);
  /// Saves the last completed step, and returns text for the error line. Nothing: this rank is in an update.
  std::optional<std::string> save() const;

  const Mpi& mpi_;
  const HeartbeatTable& table_;
  const StallDetectorSettings& settings_;
  std::vector<std::string> hosts_;  ///< by rank
  mutable std::mutex save_mutex_;
  SaveBeforeExit save_before_exit_;
  std::mutex line_mutex_;
  std::string line_;                       ///< of the end of the run, while this rank saves
  bool has_stopped_updates_ = false;       ///< second thread
  std::optional<double> following_since_;  ///< second thread: table_time of the first call of follow_on_second_thread
};

}  // namespace carillon
