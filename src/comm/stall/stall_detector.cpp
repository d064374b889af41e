#include "src/comm/stall/stall_detector.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "carillon/core/error.h"
#include "src/comm/mpi/members.h"
#include "src/comm/stall/heartbeat_table.h"
#include "src/comm/stall/main_thread.h"
#include "src/core/printable.h"

namespace carillon {
namespace {

/// Whether `phase` is a part of each step.
bool is_work(int phase) { return phase == static_cast<int>(Phase::data) || phase == static_cast<int>(Phase::compute); }

constexpr double long_phase = 4.0;

/// How long a rank may give no sign in `phase`.
double allowed_seconds(int phase, double stall_seconds) {
  if (is_work(phase)) return stall_seconds;
  return (phase == static_cast<int>(Phase::start) ? 12.0 : long_phase) * stall_seconds;
}

/// Between the end that one rank of a host makes of the run and that of the others, if MPI does not end them before, as
/// when mpirun waits for a host that it cannot reach.
constexpr double end_seconds = 5.0;

[[noreturn]] void leave() { std::_Exit(static_cast<int>(ExitCode::failed)); }

}  // namespace

/// Ends the process when the main thread stands still without a wait that the stall detector knows of.
class StallDetector::OwnThread {
 public:
  explicit OwnThread(const StallDetector& stall_detector)
      : stall_detector_(stall_detector),
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
    const double interval = std::clamp(settings_.stall_seconds / 20.0, 0.05, 1.0);
    Stillness stillness(2.0 * interval), end(2.0 * interval);
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, std::chrono::duration<double>(interval), [this] { return ends_; })) {
      if (table_.run_ends()) {  // who ended it has said why
        if (end.seconds(0, board_time()) > end_seconds) leave();
        continue;
      }
      // The phase first: a sign is given before each.
      const double longest = allowed(table_.own().phase.load(std::memory_order_acquire));
      const double still = stillness.seconds(table_.own().signs.load(std::memory_order_acquire), board_time());
      if (still < longest || !table_.is_first_to_end()) continue;
      tell();
      leave();  // MPI is the main thread's, which hangs
    }
  }

  /// Others, who wait for this rank, are to tell first; only they can when the whole process stands still. And a wait
  /// that the stall detector does not know of may be for ranks that save a checkpoint.
  double allowed(int phase) const {
    const double own = 1.25 * allowed_seconds(phase, settings_.stall_seconds);
    return settings_.waits_unseen && is_work(phase) ? long_phase * own : own;
  }

  void tell() const {
    const std::optional<int> other = settings_.waits_unseen ? table_.who_holds_up() : std::nullopt;
    const int own = table_.own_member();
    const std::string of_other =
        other ? fmt::format("; {}{}", table_.stands_still(*other), stall_detector_.data_of(*other)) : "";
    const std::string line = fmt::format("{}: rank {} on {}: stands still: it has been {}{}{}\n", settings_.program,
                                         stall_detector_.mpi_.rank(), stall_detector_.mpi_.host(),
                                         table_.what_it_does(own), stall_detector_.data_of(own), of_other);
    static_cast<void>(!write(STDERR_FILENO, line.data(), line.size()));
    ask_for_stack(table_.process(other.value_or(own)));
  }

  const StallDetector& stall_detector_;
  const HeartbeatTable& table_;
  const StallDetectorSettings& settings_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ends_ = false;
  std::thread thread_;
};

/// What this rank has seen of the others.
struct StallDetector::Looks {
  std::vector<Stillness> of_member;
  Stillness of_own_wait{1.0};
  std::uint64_t waits = 0;  ///< over
};

StallDetector::StallDetector(const Mpi& mpi, const StallDetectorSettings& settings)
    : mpi_(mpi),
      settings_(settings),
      table_(std::make_unique<HeartbeatTable>(mpi.ranks().local)),
      looks_(std::make_unique<Looks>()),
      hosts_(mpi.all_gather(mpi.host())) {
  looks_->of_member.assign(static_cast<std::size_t>(table_->size()), Stillness(1.0));
  catch_stack_signal();
  if (std::isfinite(settings_.stall_seconds) && settings_.ends_own_stall) {
    thread_ = std::make_unique<OwnThread>(*this);
  }
  mpi.limit_waits({.stall_detector = this});
}

StallDetector::~StallDetector() {
  mpi_.limit_waits({});
  thread_.reset();
}

void StallDetector::enter(Phase phase, std::int64_t step) {
  HeartbeatTable::Entry& own = table_->own();
  const double time = board_time();
  if (is_work(own.phase)) {
    own.worked.store(own.worked + time - own.since - std::exchange(waited_, 0.0), std::memory_order_relaxed);
  }
  waited_ = 0.0;
  // After a whole step all ranks have left what was before it.
  if (own.phase == static_cast<int>(Phase::compute) && phase == Phase::data) others_may_be_long_ = false;
  if (!is_work(static_cast<int>(phase))) others_may_be_long_ = true;
  table_->give_sign();  // first: nobody is to see an old sign with a new phase
  own.step.store(step, std::memory_order_relaxed);
  own.since.store(time, std::memory_order_relaxed);
  own.phase.store(static_cast<int>(phase), std::memory_order_release);
}

void StallDetector::heartbeat() { table_->give_sign(); }

void StallDetector::describe_data(DescribeData describe) {
  const std::lock_guard lock(describe_mutex_);
  describe_data_ = std::move(describe);
}

/// ", whose batch begins with a.tfrecord: record 12"
std::string StallDetector::data_of(int member) const {
  const HeartbeatTable::Entry& entry = table_->entry(member);
  const std::lock_guard lock(describe_mutex_);
  if (!describe_data_ || entry.phase != static_cast<int>(Phase::data)) return {};
  try {
    return ", " + printable(describe_data_(table_->rank(member), entry.step));
  } catch (const std::exception&) {  // there is something to be said without it
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
                     .seconds_in_phase = board_time() - entry.since,
                     .worked_seconds = entry.worked});
  }
  return found;
}

void StallDetector::look(std::string_view operation, std::span<const int> ranks, double seconds) {
  HeartbeatTable::Entry& own = table_->own();
  looked_ = true;
  own.waits_for = ranks.front();
  table_->give_sign();
  if (table_->run_ends()) return;  // who ended it has said why
  const double time = board_time();
  const std::string waited_for = rank_list({ranks.begin(), ranks.end()});
  for (int member = 0; member < table_->size(); ++member) {
    HeartbeatTable::Entry& other = table_->entry(member);
    const double allowed = allowed_seconds(other.phase.load(std::memory_order_acquire), settings_.stall_seconds);
    const double still = looks_->of_member[member].seconds(other.signs.load(std::memory_order_acquire), time);
    if (member == table_->own_member() || still < allowed) continue;
    if (!table_->is_first_to_end()) return;
    ask_for_stack(table_->process(member));
    end_run(fmt::format("{}{}; this rank has waited for {} in {} for {:.0f} s", table_->stands_still(member),
                        data_of(member), waited_for, operation, seconds));
  }
  // Somebody of this host may be to blame, or may tell who is.
  if (std::ranges::any_of(ranks, [&](int rank) { return table_->is_here(rank); })) return;
  const double waited = looks_->of_own_wait.seconds(looks_->waits, time);
  const double allowed = 1.5 * (others_may_be_long_ ? long_phase : 1.0) * settings_.stall_seconds;
  if (waited < allowed || !table_->is_first_to_end()) return;
  end_run(fmt::format("waited {:.0f} s for {} on {} in {}, and heard nothing", seconds, waited_for, hosts_of(ranks),
                      operation));
}

std::string StallDetector::hosts_of(std::span<const int> ranks) const {
  std::set<std::string> names;
  for (const int rank : ranks) {
    if (rank < mpi_.size()) names.insert(hosts_[static_cast<std::size_t>(rank)]);
  }
  return names.empty() ? "other hosts" : fmt::format("{}", fmt::join(names, ", "));
}

void StallDetector::end_run(const std::string& line) const {
  if (settings_.end_run) settings_.end_run(line);
  fail(ExitCode::failed, "{}", line);
}

void StallDetector::waited(double seconds) {
  waited_ += seconds;
  if (!std::exchange(looked_, false)) return;
  ++looks_->waits;
  table_->own().waits_for = -1;
  table_->give_sign();
}

}  // namespace carillon
