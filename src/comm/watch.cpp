#include "carillon/comm/watch.h"

#include <execinfo.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <csignal>
#include <fstream>
#include <iterator>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>

#include "src/comm/exchange.h"
#include "src/comm/members.h"
#include "src/comm/shared_arrays.h"

namespace carillon {
namespace {

constexpr std::array<std::string_view, 6> phase_names{"start", "data", "compute", "evaluation", "checkpoint", "finish"};

/// In seconds of a clock that all processes of a host share.
double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Adds up for how long something has not changed, as far as the looking process ran itself: a gap between two looks
/// counts as `max_gap` at most.
class Stillness {
 public:
  explicit Stillness(double max_gap) : max_gap_(max_gap) {}
  /// Seconds that `sign` has been what it is.
  double seconds(std::uint64_t sign, double time) {
    seconds_ = sign == sign_ ? seconds_ + std::min(time - looked_, max_gap_) : 0.0;
    sign_ = sign;
    looked_ = time;
    return seconds_;
  }

 private:
  double max_gap_, seconds_ = 0.0, looked_ = 0.0;
  std::uint64_t sign_ = std::numeric_limits<std::uint64_t>::max();
};

}  // namespace

std::string_view name_of(Phase phase) { return phase_names.at(static_cast<std::size_t>(phase)); }

/// An entry for each rank of the host, which it alone writes, but for `run_ends` of the first.
class Watch::Board {
 public:
  struct Entry {
    std::atomic<std::uint64_t> signs{0};  ///< of life: phases entered, looks taken while it waits, waits over
    std::atomic<double> since{0.0};       ///< when the phase began
    std::atomic<std::int64_t> step{0};
    std::atomic<int> phase{0};
    std::atomic<int> waits_for{-1};  ///< a rank, while this one waits
    std::atomic<double> worked{0.0};
    std::atomic<int> process{0};
    std::atomic<bool> run_ends{false};  ///< somebody has said why
  };
  static_assert(std::atomic<double>::is_always_lock_free, "entries are shared between processes");

  explicit Board(const Members& host) : host_(host), arrays_(host, sizeof(Entry)) {
    new (arrays_.own()) Entry;
    own().since = now();
    own().process = getpid();
    meet(host, "setting up the watch");
  }

  int size() const { return host_.size(); }
  int own_rank() const { return host_.rank(); }
  /// The number in the run of member `member` of this host.
  int rank(int member) const { return host_.waiter().ranks()[member]; }
  bool is_here(int rank) const { return std::ranges::count(host_.waiter().ranks(), rank) > 0; }
  Entry& entry(int member) const { return *reinterpret_cast<Entry*>(arrays_.array(member)); }
  Entry& own() const { return entry(own_rank()); }
  /// The main thread gets on.
  void give_sign() const {
    own().signs.store(own().signs.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

  /// Whether nobody of this host has ended the run before: then the caller is to say why, and do it.
  bool is_first_to_end() const { return !entry(0).run_ends.exchange(true); }
  bool run_ends() const { return entry(0).run_ends; }

  /// "in data of step 812 for 61 s", "in compute of step 812 for 61 s, waiting for rank 2"
  std::string what_it_does(int member) const {
    const Entry& of = entry(member);
    const int waits_for = of.waits_for;
    return fmt::format("in {} of step {} for {:.0f} s{}", name_of(static_cast<Phase>(of.phase.load())), of.step.load(),
                       now() - of.since, waits_for < 0 ? "" : fmt::format(", waiting for rank {}", waits_for));
  }

 private:
  const Members& host_;
  SharedArrays arrays_;
};

namespace {

/// Whether `phase` is a part of each step.
bool is_work(int phase) { return phase == static_cast<int>(Phase::data) || phase == static_cast<int>(Phase::compute); }

constexpr double long_phase = 4.0;

/// How long a rank may give no sign in `phase`.
double allowed_seconds(int phase, double stall_seconds) {
  if (is_work(phase)) return stall_seconds;
  return (phase == static_cast<int>(Phase::start) ? 12.0 : long_phase) * stall_seconds;
}

constexpr int stack_signal = SIGUSR2;
constexpr int max_frames = 64;

/// The main thread tells where it is.
void print_stack(int) {
  const int error = errno;
  std::array<void*, max_frames> frames{};
  backtrace_symbols_fd(frames.data(), backtrace(frames.data(), max_frames), STDERR_FILENO);
  errno = error;
}

void catch_stack_signal() {
  std::array<void*, 1> frame{};
  backtrace(frame.data(), 1);  // loads what it needs, which a handler may not
  struct sigaction action {};
  action.sa_handler = print_stack;
  action.sa_flags = SA_RESTART;
  sigaction(stack_signal, &action, nullptr);
}

/// Whether somebody has stopped a process (SIGSTOP, a debugger).
bool is_stopped(int process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t state = text.rfind(") ");
  return state != std::string::npos && state + 2 < text.size() && (text[state + 2] == 'T' || text[state + 2] == 't');
}

/// Has the main thread of a process of this host write its stack.
void ask_for_stack(int process) {
  if (is_stopped(process) || syscall(SYS_tgkill, process, process, stack_signal) != 0) return;
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // while it does
}

}  // namespace

/// Ends the process when the main thread stands still without waiting for others.
class Watch::OwnThread {
 public:
  OwnThread(const Board& board, const Mpi& mpi, double stall_seconds)
      : board_(board), mpi_(mpi), stall_seconds_(stall_seconds), thread_([this] { run(); }) {}
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
    const double interval = std::clamp(stall_seconds_ / 20.0, 0.05, 1.0);
    Stillness stillness(2.0 * interval);
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, std::chrono::duration<double>(interval), [this] { return ends_; })) {
      Board::Entry& own = board_.own();
      // Others, who wait for this rank, are to tell first; only they can when the whole process stands still.
      const double allowed = 1.25 * allowed_seconds(own.phase, stall_seconds_);
      if (stillness.seconds(own.signs, now()) < allowed) continue;
      if (board_.is_first_to_end()) tell(own.process);
      std::_Exit(static_cast<int>(ExitCode::failed));  // MPI is the main thread's, which hangs
    }
  }

  void tell(int process) const {
    const std::string line = fmt::format("rank {} on {} has been {} without getting on\n", mpi_.rank(), mpi_.host(),
                                         board_.what_it_does(board_.own_rank()));
    static_cast<void>(!write(STDERR_FILENO, line.data(), line.size()));
    ask_for_stack(process);
  }

  const Board& board_;
  const Mpi& mpi_;
  double stall_seconds_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ends_ = false;
  std::thread thread_;
};

/// What this rank has seen of the others.
struct Watch::Looks {
  std::vector<Stillness> of_member;
  Stillness of_own_wait{1.0};
  std::uint64_t waits = 0;  ///< over
};

Watch::Watch(const Mpi& mpi, const WatchSettings& settings)
    : mpi_(mpi),
      settings_(settings),
      board_(std::make_unique<Board>(mpi.ranks().local)),
      looks_(std::make_unique<Looks>()) {
  looks_->of_member.assign(static_cast<std::size_t>(board_->size()), Stillness(1.0));
  if (std::isfinite(settings_.stall_seconds)) {
    catch_stack_signal();
    if (settings.ends_own_stall) thread_ = std::make_unique<OwnThread>(*board_, mpi, settings.stall_seconds);
  }
  mpi.limit_waits({.watch = this});
}

Watch::~Watch() {
  mpi_.limit_waits({});
  thread_.reset();
}

void Watch::enter(Phase phase, std::int64_t step) {
  Board::Entry& own = board_->own();
  const double time = now();
  if (is_work(own.phase)) {
    own.worked.store(own.worked + time - own.since - std::exchange(waited_, 0.0), std::memory_order_relaxed);
  }
  waited_ = 0.0;
  // After a whole step all ranks have left what was before it.
  if (own.phase == static_cast<int>(Phase::compute) && phase == Phase::data) others_may_be_long_ = false;
  if (!is_work(static_cast<int>(phase))) others_may_be_long_ = true;
  board_->give_sign();  // first: nobody is to see an old sign with a new phase
  own.step.store(step, std::memory_order_relaxed);
  own.since.store(time, std::memory_order_relaxed);
  own.phase.store(static_cast<int>(phase), std::memory_order_release);
}

void Watch::get_on() { board_->give_sign(); }

std::vector<RankActivity> Watch::activities() const {
  std::vector<RankActivity> found;
  for (int member = 0; member < board_->size(); ++member) {
    const Board::Entry& entry = board_->entry(member);
    found.push_back({.rank = board_->rank(member),
                     .phase = static_cast<Phase>(entry.phase.load()),
                     .step = entry.step,
                     .seconds_in_phase = now() - entry.since,
                     .worked_seconds = entry.worked});
  }
  return found;
}

void Watch::look(std::string_view operation, std::span<const int> ranks, double seconds) {
  Board::Entry& own = board_->own();
  looked_ = true;
  own.waits_for = ranks.front();
  board_->give_sign();
  if (board_->run_ends()) return;  // who ended it has said why, and ends this rank, too
  const double time = now();
  const std::string waited_for = rank_list({ranks.begin(), ranks.end()});
  for (int member = 0; member < board_->size(); ++member) {
    Board::Entry& other = board_->entry(member);
    const double allowed = allowed_seconds(other.phase.load(std::memory_order_acquire), settings_.stall_seconds);
    const double still = looks_->of_member[member].seconds(other.signs.load(std::memory_order_acquire), time);
    if (member == board_->own_rank() || still < allowed) continue;
    if (!board_->is_first_to_end()) return;
    ask_for_stack(other.process);
    end_run(fmt::format("rank {} stands still{}: it has been {}; this rank has waited for {} in {} for {:.0f} s",
                        board_->rank(member), is_stopped(other.process) ? ", stopped by a signal" : "",
                        board_->what_it_does(member), waited_for, operation, seconds));
  }
  // Somebody of this host may be to blame, or may tell who is.
  if (std::ranges::any_of(ranks, [&](int rank) { return board_->is_here(rank); })) return;
  const double waited = looks_->of_own_wait.seconds(looks_->waits, time);
  const double allowed = 1.5 * (others_may_be_long_ ? long_phase : 1.0) * settings_.stall_seconds;
  if (waited < allowed || !board_->is_first_to_end()) return;
  end_run(
      fmt::format("waited {:.0f} s for {} on other hosts in {}, and heard nothing", seconds, waited_for, operation));
}

void Watch::end_run(const std::string& line) const {
  if (settings_.end_run) settings_.end_run(line);
  fail(ExitCode::failed, "{}", line);
}

void Watch::waited(double seconds) {
  waited_ += seconds;
  if (!std::exchange(looked_, false)) return;
  ++looks_->waits;
  board_->own().waits_for = -1;
  board_->give_sign();
}

}  // namespace carillon
