#include "src/comm/stall/stall_detector.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "carillon/core/error.h"
#include "src/comm/mpi/members.h"
#include "src/comm/stall/heartbeat_table.h"
#include "src/core/process.h"
#include "src/core/text.h"

namespace carillon {
namespace {

constexpr double long_phase = 4.0,
                 start_phase = 12.0;  ///< the longest times without a heartbeat, as multiples of the limit

/// Returns the longest time without a heartbeat in `phase`, as a multiple of the limit.
double longest_share(Phase phase) {
  if (is_step_phase(static_cast<int>(phase))) return 1.0;
  return phase == Phase::start ? start_phase : long_phase;
}

double allowed_seconds(int phase, double stall_seconds) {
  return longest_share(static_cast<Phase>(phase)) * stall_seconds;
}

}  // namespace

/// Thread that ends the process if the main thread hangs outside of an observed wait.
class StallDetector::OwnThread {
 public:
  explicit OwnThread(StallDetector& stall_detector)
      : stall_detector_(stall_detector),
        run_end_(stall_detector.run_end_),
        table_(*stall_detector.table_),
        settings_(stall_detector.settings_),
        thread_([this] { run(); }) {}
  ~OwnThread() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

 private:
  void run() {
    // The interval is short, so that this thread notices soon if the process of a rank ends. The limit for ranks that
    // hang does not apply to this case.
    const double interval = std::clamp(settings_.stall_seconds / 20.0, 0.05, table_.size() > 1 ? 0.2 : 1.0);
    Stillness stillness(2.0 * interval);
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, std::chrono::duration<double>(interval), [this] { return ends_; })) {
      if (table_.run_ends()) {
        run_end_.follow_on_second_thread();
        continue;
      }
      // The phase is read before the heartbeats: each change of the phase follows a heartbeat.
      const double longest = allowed(table_.own().phase.load(std::memory_order_acquire));
      const double still = stillness.seconds(table_.own().signs.load(std::memory_order_acquire), table_time());
      run_end_.look_on_second_thread(still);
      if (still < longest || !table_.is_first_to_end()) continue;
      tell();
      // No MPI_Abort: only the main thread may call MPI, and the main thread hangs.
      std::_Exit(static_cast<int>(ExitCode::lost_rank));
    }
  }

  /// Returns the longest time without a heartbeat in `phase`, in seconds. Ranks that wait for this rank have a shorter
  /// limit, so that they report first. Reason: if this process is stopped, only the other ranks can report it. In a
  /// wait that is not observed, the other ranks may be saving a checkpoint, so the limit is 4 times as long.
  double allowed(int phase) const {
    const double own = 1.25 * allowed_seconds(phase, settings_.stall_seconds);
    return settings_.waits_unseen && is_step_phase(phase) ? long_phase * own : own;
  }

  void tell() const {
    const std::optional<int> other = settings_.waits_unseen ? table_.slowest_member() : std::nullopt;
    const int own = table_.own_member();
    const std::string of_other =
        other ? fmt::format("; {}{}", table_.stall_text(*other), stall_detector_.data_of(*other)) : "";
    const std::string text =
        fmt::format("hangs: it has been {}{}{}", table_.activity_text(own), stall_detector_.data_of(own), of_other);
    if (settings_.print) {
      settings_.print(text);
    } else {
      const Mpi& mpi = stall_detector_.mpi_;
      print_text(STDERR_FILENO,
                 fmt::format("{}: rank {} on {}: {}\n", settings_.program, mpi.rank(), mpi.host(), text));
    }
    request_stack(table_.process(other.value_or(own)));
  }

  const StallDetector& stall_detector_;
  RunEnd& run_end_;
  const HeartbeatTable& table_;
  const StallDetectorSettings& settings_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ends_ = false;
  std::thread thread_;
};

/// Measures how long each member has had no heartbeat, and how long the current wait of this rank has lasted.
struct StallDetector::Looks {
  std::vector<Stillness> of_member;
  Stillness of_own_wait{1.0};
  std::uint64_t waits = 0;  ///< number of finished waits
};

StallDetector::StallDetector(const Mpi& mpi, const StallDetectorSettings& settings)
    : mpi_(mpi),
      settings_(settings),
      table_(std::make_unique<HeartbeatTable>(mpi.ranks().local)),
      looks_(std::make_unique<Looks>()),
      run_end_(mpi, *table_, settings_) {
  looks_->of_member.assign(static_cast<std::size_t>(table_->size()), Stillness(1.0));
  catch_stack_signal();
  if ((std::isfinite(settings_.stall_seconds) && settings_.ends_own_stall) || (settings_.print && mpi.size() > 1)) {
    thread_ = std::make_unique<OwnThread>(*this);
  }
  mpi.limit_waits({.observer = this});
}

StallDetector::~StallDetector() {
  mpi_.limit_waits({});
  thread_.reset();
}

void StallDetector::enter(Phase phase, std::int64_t step) {
  HeartbeatTable::Entry& own = table_->own();
  const double time = table_time();
  if (is_step_phase(own.phase)) {
    own.worked.store(own.worked + time - own.since - std::exchange(waited_, 0.0), std::memory_order_relaxed);
  }
  waited_ = 0.0;
  // After a whole step, all ranks have left the phases before this step.
  if (own.phase == static_cast<int>(Phase::compute) && phase == Phase::data) phase_of_others_ = phase;
  if (longest_share(phase) > longest_share(phase_of_others_)) phase_of_others_ = phase;
  table_->beat();  // must precede the change of the phase, because no rank may see the new phase with the old heartbeat
  own.step.store(step, std::memory_order_relaxed);
  own.since.store(time, std::memory_order_relaxed);
  own.phase.store(static_cast<int>(phase), std::memory_order_release);
}

void StallDetector::heartbeat() { table_->beat(); }

void StallDetector::mark_failure(ExitCode code) { table_->own().failed_with = static_cast<int>(code); }

bool StallDetector::has_failed_rank() const { return table_->has_failed_member(); }

void StallDetector::describe_data(DescribeData describe) {
  const std::lock_guard lock(describe_mutex_);
  describe_data_ = std::move(describe);
}

/// Returns, for example, ", whose batch begins with a.tfrecord: record 12".
std::string StallDetector::data_of(int member) const {
  const HeartbeatTable::Entry& entry = table_->entry(member);
  const std::lock_guard lock(describe_mutex_);
  if (!describe_data_ || entry.phase != static_cast<int>(Phase::data)) return {};
  try {
    return ", " + printable(describe_data_(table_->rank(member), entry.step));
  } catch (const std::exception&) {  // errors are ignored, because the line is useful without this text
    return {};
  }
}

std::vector<RankActivity> StallDetector::activities() const {
  std::vector<RankActivity> found;
  for (int member = 0; member < table_->size(); ++member) {
    const HeartbeatTable::Entry& entry = table_->entry(member);
    found.push_back({.rank = table_->rank(member),
                     .phase = static_cast<Phase>(entry.phase.load()),
                     .step = entry.step,
                     .seconds_in_phase = table_time() - entry.since,
                     .worked_seconds = entry.worked});
  }
  return found;
}

void StallDetector::still_waiting(std::string_view operation, std::span<const int> ranks, double seconds) {
  HeartbeatTable::Entry& own = table_->own();
  looked_ = true;
  own.waits_for = ranks.front();
  table_->beat();
  if (table_->run_ends()) return run_end_.follow();
  run_end_.still_waiting(operation, ranks, seconds);
  const double time = table_time();
  const std::string waited_for = rank_list({ranks.begin(), ranks.end()});
  for (int member = 0; member < table_->size(); ++member) {
    HeartbeatTable::Entry& other = table_->entry(member);
    const double allowed = allowed_seconds(other.phase.load(std::memory_order_acquire), settings_.stall_seconds);
    const double still = looks_->of_member[member].seconds(other.signs.load(std::memory_order_acquire), time);
    if (member == table_->own_member() || still < allowed) continue;
    if (!table_->is_first_to_end()) return;
    request_stack(table_->process(member));
    run_end_.end(fmt::format("{}{}; this rank has waited for {} in {} for {:.0f} s", table_->stall_text(member),
                             data_of(member), waited_for, operation, seconds));
  }
  // If the wait is for a rank of this host, that rank may have caused the stall, or may know the cause.
  if (std::ranges::any_of(ranks, [&](int rank) { return table_->member(rank).has_value(); })) return;
  const double waited = looks_->of_own_wait.seconds(looks_->waits, time);
  const double allowed = 1.5 * longest_share(phase_of_others_) * settings_.stall_seconds;
  if (waited < allowed || !table_->is_first_to_end()) return;
  run_end_.end(run_end_.wait_text(operation, ranks, seconds) + " without a response");
}

bool StallDetector::has_ended(int rank) const {
  const std::optional<int> member = table_->member(rank);
  return member && table_->was_killed(*member);
}

void StallDetector::waited(double seconds) {
  waited_ += seconds;
  if (!std::exchange(looked_, false)) return;
  ++looks_->waits;
  table_->own().waits_for = -1;
  table_->beat();
}

}  // namespace carillon
