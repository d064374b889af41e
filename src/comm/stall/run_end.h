// RunEnd: ends the run on this rank if another rank cannot continue it.
//
//   cause                                               what this rank does
//   the process of a rank of this host has ended        one rank of the host saves the last completed step, prints one
//   a rank hangs (StallDetector)                        line and exits; the others exit after it
//   the launcher ends the run: another host's rank has
//   probably ended
//   an error ends a rank of this host                   exits after it with the same code; does not save or print
//
// If a main thread waits for a process of its host, the main thread notices when that process ends. While the main
// thread of the lowest rank of the host computes, the rank's second thread notices when any process of the host ends.
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
  /// Returns true if this rank is in an update. If a rank has ended, the other ranks can complete its update.
  std::function<bool()> is_updating;
  /// Another thread calls this function to prevent further updates. Returns false if the main thread is in an update.
  std::function<bool()> stop_updates;
  std::function<std::string()> save;  ///< saves the step, and returns text for the error line: "; saved step 812 in
                                      ///< DIR"
};

class RunEnd {
 public:
  /// The referenced objects outlive this object. Collective.
  RunEnd(const Mpi& mpi, const HeartbeatTable& table, const StallDetectorSettings& settings);

  /// Sets how to save the last completed step. If the functions are empty, the step is not saved.
  void save_before_exit(SaveBeforeExit save);

  // The main thread calls the next two functions about ten times a second in each wait.
  /// Acts if another rank ends the run. While the process of that rank runs, this function does nothing. After that
  /// process has ended and a rank has saved a checkpoint, this function exits. If no rank has saved a checkpoint by
  /// then, the lowest rank saves and exits, and the function returns on the other ranks.
  void follow() const;
  /// Ends the run if one of `ranks` is on this host and has ended, or if the launcher ends the run. Errors: lost_rank
  /// (only without StallDetectorSettings::print).
  void still_waiting(std::string_view operation, std::span<const int> ranks, double seconds);
  // The main thread calls the next function.
  /// Saves, and calls StallDetectorSettings::end_run with the line. That function may end the process. Requires
  /// HeartbeatTable::is_first_to_end. Errors: lost_rank (its message is the line).
  [[noreturn]] void end(const std::string& line);

  // The second thread calls the next two functions a few times per second.
  /// Ends this process if another rank, or the main thread of this rank, ends the run. This process exits after the
  /// rank that ends the run has saved and exited. If look_on_second_thread has stopped the updates, does the same as
  /// `follow`. If this rank ends the run, first prints its line. After a time limit, exits even if the save has not
  /// ended, for example because a file system hangs.
  void follow_on_second_thread();
  /// Ends the run like `still_waiting`, if the main thread cannot check the other ranks itself. This is the case while
  /// the main thread computes, or if its MPI call does not return. `still`: seconds since the last heartbeat of the
  /// main thread.
  void look_on_second_thread(double still);

  /// "waited 61 s for ranks 1 and 2 on n2 in averaging"
  std::string wait_text(std::string_view operation, std::span<const int> ranks, double seconds) const;

 private:
  std::string ended_text(int member) const;
  /// Returns the first of the ranks that is a member of this host and has ended.
  std::optional<int> ended_among(std::span<const int> ranks) const;
  /// Returns true if this rank must save because the launcher ends the run. In this case, a rank of another host has
  /// probably ended. `seconds`: duration of the wait, or time since the last heartbeat.
  bool should_save_alone(double seconds) const;
  /// If an error ends a rank of this host, waits until the process of that rank has ended, and exits with the same
  /// code. Returns true if a rank has failed.
  bool follow_failed_rank() const;
  /// Saves the last completed step, prints the line and exits.
  void save_and_exit(const std::string& line);
  bool stop_updates() const;
  /// Saves, and returns `line` followed by the text that `save` returned. After a successful save, or if there is
  /// nothing to save, marks the step as saved in the table. Stores the line, so that another thread can print it if the
  /// save hangs.
  std::string line_with_save(const std::string& line);
  /// Saves the last completed step, and returns text for the error line. Returns nothing if this rank is in an update
  /// and cannot save.
  std::optional<std::string> save() const;

  const Mpi& mpi_;
  const HeartbeatTable& table_;
  const StallDetectorSettings& settings_;
  std::vector<std::string> hosts_;  ///< host name of each rank
  mutable std::mutex save_mutex_;
  SaveBeforeExit save_before_exit_;
  std::mutex line_mutex_;
  std::string line_;                       ///< line about the end of the run, while this rank saves
  bool has_stopped_updates_ = false;       ///< only the second thread uses it
  std::optional<double> following_since_;  ///< for the second thread: table_time of the first call of
                                           ///< follow_on_second_thread
};

}  // namespace carillon
