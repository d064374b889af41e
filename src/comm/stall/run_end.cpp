#include "src/comm/stall/run_end.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>

#include "carillon/core/error.h"
#include "src/comm/mpi/members.h"
#include "src/comm/stall/heartbeat_table.h"
#include "src/comm/stall/stall_detector.h"

namespace carillon {
namespace {

/// The shortest and the longest time, in seconds, that a rank has to save and end the run. Between these limits, the
/// time equals --stall-timeout.
constexpr double min_end_seconds = 60.0, max_end_seconds = 600.0;

/// A waiting main thread has ten heartbeats a second. If it has no heartbeat for this many seconds, it hangs in a call
/// of MPI.
constexpr double hanging_seconds = 0.5;

/// The time, in seconds, that a rank gives each lower rank of its host to end the run first.
constexpr double seconds_per_lower_rank = 0.5;

[[noreturn]] void exit_process(int code = static_cast<int>(ExitCode::lost_rank)) { std::_Exit(code); }

}  // namespace

RunEnd::RunEnd(const Mpi& mpi, const HeartbeatTable& table, const StallDetectorSettings& settings)
    : mpi_(mpi), table_(table), settings_(settings), hosts_(mpi.all_gather(mpi.host())) {}

void RunEnd::save_before_exit(SaveBeforeExit save) {
  const std::lock_guard lock(save_mutex_);
  save_before_exit_ = std::move(save);
}

void RunEnd::follow() const {
  if (!table_.ending_member_has_ended()) return;
  if (table_.is_saved()) exit_process();
  if (!table_.is_lowest()) return;
  const std::string saved = save().value_or("");
  if (!saved.empty() && settings_.print) settings_.print("another rank ended the run" + saved);
  // After this call, the other ranks do not save, and the second thread exits. Therefore the output precedes the call.
  table_.mark_saved();
  exit_process();
}

void RunEnd::still_waiting(std::string_view operation, std::span<const int> ranks, double seconds) {
  if (follow_failed_rank()) return;
  // Ignores ended ranks for which this rank does not wait, because the other ranks may still complete the update.
  const std::optional<int> ended = ended_among(ranks);
  if (!ended && !should_save_alone(seconds)) return;
  if (save_before_exit_.is_updating && save_before_exit_.is_updating()) return;
  // A lower rank may also notice that the process has ended. That rank gets time to end the run first.
  if (ended && !table_.is_lowest() && seconds < seconds_per_lower_rank * table_.own_member()) return;
  if (!table_.is_first_to_end()) return;
  save_and_exit(ended ? ended_text(*ended)
                      : wait_text(operation, ranks, seconds) + " while the launcher ended the run");
}

void RunEnd::end(const std::string& line) {
  const std::string whole = line_with_save(line);
  if (settings_.end_run) settings_.end_run(whole);
  fail(ExitCode::lost_rank, "{}", whole);
}

void RunEnd::follow_on_second_thread() {
  const double limit = std::clamp(settings_.stall_seconds, min_end_seconds, max_end_seconds);
  if (!following_since_) following_since_ = table_time();
  const bool takes_too_long = table_time() - *following_since_ > limit;
  if (table_.is_ended_by_this_member()) {  // the main thread will save
    if (!takes_too_long) return;
    const std::lock_guard lock(line_mutex_);
    if (settings_.print)
      settings_.print(fmt::format("{}; saving took longer than {:.0f} s, so the step is not saved", line_, limit));
    exit_process();
  }
  if (table_.ending_member_has_ended() && table_.is_saved()) exit_process();
  if (has_stopped_updates_) follow();  // the updates are stopped, so the main thread may be blocked
  if (takes_too_long) exit_process();
}

void RunEnd::look_on_second_thread(double still) {
  if (table_.own().waits_for >= 0 && still < hanging_seconds) return;
  if (follow_failed_rank()) return;
  const std::optional<int> ended = table_.is_lowest() ? table_.ended_member() : std::nullopt;
  if (!ended && !should_save_alone(still)) return;
  // After this rank has stopped its updates, no other rank begins an update.
  if (!stop_updates()) return;
  has_stopped_updates_ = true;
  if (!table_.is_first_to_end()) return;
  save_and_exit(ended ? ended_text(*ended)
                      : fmt::format("this rank was {} while the launcher ended the run",
                                    table_.activity_text(table_.own_member())));
}

std::string RunEnd::wait_text(std::string_view operation, std::span<const int> ranks, double seconds) const {
  std::set<std::string> names;
  for (const int rank : ranks) {
    if (rank < mpi_.size()) names.insert(hosts_[static_cast<std::size_t>(rank)]);
  }
  return fmt::format("waited {:.0f} s for {} on {} in {}", seconds, rank_list({ranks.begin(), ranks.end()}),
                     names.empty() ? "other hosts" : fmt::format("{}", fmt::join(names, ", ")), operation);
}

std::string RunEnd::ended_text(int member) const {
  return fmt::format("the process of rank {} has ended in {}", table_.rank(member), table_.place_text(member));
}

std::optional<int> RunEnd::ended_among(std::span<const int> ranks) const {
  for (const int rank : ranks) {
    const std::optional<int> member = table_.member(rank);
    if (member && table_.has_ended(*member)) return member;
  }
  return std::nullopt;
}

bool RunEnd::should_save_alone(double seconds) const {
  // A rank saves alone only within a step. Outside of steps, other ranks may be saving or evaluating, for example
  // because a signal asked the run to stop.
  const bool several_hosts = table_.size() < mpi_.size();
  return several_hosts && table_.is_in_step() && settings_.should_save_alone && settings_.should_save_alone(seconds) &&
         table_.is_lowest();
}

bool RunEnd::follow_failed_rank() const {
  const std::optional<int> failed = table_.failed_member();
  if (failed && table_.has_ended(*failed)) exit_process(table_.entry(*failed).failed_with);
  return failed.has_value();
}

void RunEnd::save_and_exit(const std::string& line) {
  const std::string whole = line_with_save(line);
  if (!settings_.print) fail(ExitCode::lost_rank, "{}", whole);
  settings_.print(whole);
  exit_process();
}

bool RunEnd::stop_updates() const {
  const std::lock_guard lock(save_mutex_);
  return !save_before_exit_.stop_updates || save_before_exit_.stop_updates();
}

std::string RunEnd::line_with_save(const std::string& line) {
  {
    const std::lock_guard lock(line_mutex_);
    line_ = line;
  }
  const std::optional<std::string> saved = save();
  if (saved && (saved->empty() || saved->starts_with("; saved"))) table_.mark_saved();
  return line + saved.value_or("");
}

std::optional<std::string> RunEnd::save() const {
  const std::lock_guard lock(save_mutex_);
  if (!save_before_exit_.save) return "";
  if (save_before_exit_.is_updating && save_before_exit_.is_updating()) return std::nullopt;
  return save_before_exit_.save();
}

}  // namespace carillon
