// Measures the times of a run: by phase, by step and by rank.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/comm/mpi/mpi.h"
#include "src/comm/stall/stall_detector.h"
#include "src/report/run_log.h"

namespace carillon {

/// Returns the median of `values`, which must not be empty. If there are two middle values, returns the larger one.
template <typename Value>
Value median(std::vector<Value> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// The time that a run spends in each of its phases. A phase may be entered any number of times.
class PhaseTimes {
 public:
  using Clock = std::chrono::steady_clock;

  /// The run has been in Phase::start since `start`.
  explicit PhaseTimes(Clock::time_point start) : since_(start) {}

  void enter(Phase phase, Clock::time_point now) {
    spent_[index(phase_)] += now - since_;
    phase_ = phase;
    since_ = now;
  }

  /// Returns the seconds that the run has spent in each phase up to `now`.
  PhaseSeconds seconds(Clock::time_point now = Clock::now()) const {
    PhaseTimes ended = *this;
    ended.enter(phase_, now);
    const auto of = [&](Phase phase) { return std::chrono::duration<double>(ended.spent_[index(phase)]).count(); };
    return {.start = of(Phase::start),
            .data = of(Phase::data),
            .training = of(Phase::compute),
            .evaluation = of(Phase::evaluation),
            .checkpoints = of(Phase::checkpoint) + of(Phase::finish)};
  }

 private:
  static std::size_t index(Phase phase) { return static_cast<std::size_t>(phase); }

  std::array<Clock::duration, static_cast<std::size_t>(Phase::finish) + 1> spent_{};
  Phase phase_ = Phase::start;
  Clock::time_point since_;
};

/// The times of the steps since the last log line. On a GPU, a step is launched before earlier steps end, so the time
/// of a step is the time between the ends of two steps.
class StepClock {
 public:
  using Clock = std::chrono::steady_clock;
  struct Means {  ///< seconds per step
    double step = 0.0, data_wait = 0.0, allreduce = 0.0;
  };

  /// Call it before the first step.
  void start(Clock::time_point now = Clock::now()) { since_ = end_ = now; }
  /// Counts a launched step. `data_wait_seconds`: time that the step waited for its batch.
  void take_step(double data_wait_seconds) { waits_of_taken_.push_back(data_wait_seconds); }
  /// Records that the oldest launched step ended at `end`.
  void end_step(double allreduce_seconds, Clock::time_point end) {
    ++ended_;
    allreduce_seconds_ += allreduce_seconds;
    data_wait_seconds_ += waits_of_taken_.front();
    waits_of_taken_.pop_front();
    end_ = end;
  }
  /// Forgets the ended steps, which have been logged.
  void restart() {
    since_ = end_;
    ended_ = 0;
    data_wait_seconds_ = allreduce_seconds_ = 0.0;
  }
  /// Subtracts a period without steps from the measured time. `spent`: length of the period.
  void exclude(Clock::duration spent) { since_ += spent; }

  /// Returns the time at which the newest completed step ended.
  Clock::time_point end() const { return end_; }
  /// Returns the time of all ended steps, which is above 0.
  double seconds() const {
    constexpr double least = 1e-9;  // above 0, because a speed is divided by this time
    return std::max(std::chrono::duration<double>(end_ - since_).count(), least);
  }
  /// Returns the means over the ended steps. Requires at least one ended step.
  Means means() const {
    const double ended = static_cast<double>(ended_);
    return {
        .step = seconds() / ended, .data_wait = data_wait_seconds_ / ended, .allreduce = allreduce_seconds_ / ended};
  }

 private:
  std::deque<double> waits_of_taken_;  ///< seconds, one per launched step that has not ended
  std::int64_t ended_ = 0;
  double data_wait_seconds_ = 0.0, allreduce_seconds_ = 0.0;
  Clock::time_point since_, end_;
};

/// After the first steps, returns a notice if the training will take more than an hour. Returns the notice only once.
class DurationNotice {
 public:
  using Clock = std::chrono::steady_clock;

  /// `faster`: LoggingOptions::faster_choice.
  explicit DurationNotice(std::string faster) : faster_(std::move(faster)) {}

  /// Records that a step ended at `end` and that `steps_left` steps follow. If the remaining steps will take more than
  /// an hour, returns the notice. Returns it at the first step that ends at least 10 seconds after the first step. The
  /// first step does not count, because it prepares the ops.
  std::optional<std::string> end_step(Clock::time_point end, std::int64_t steps_left);
  /// Subtracts a period without steps from the measured time. `spent`: length of the period.
  void exclude(Clock::duration spent);

 private:
  std::string faster_;
  bool decided_ = false;
  std::optional<Clock::time_point> first_end_;
  std::int64_t counted_ = 0;  ///< steps after the first one
};

/// Measures the time that each rank works in a step, and warns of stragglers.
///
/// All ranks need the same time for a step, because they wait for each other. A straggler is a rank that works while
/// the other ranks wait.
class RankTimes {
 public:
  /// Measures from step `step` on. The referenced objects outlive this object.
  RankTimes(const Mpi& mpi, const StallDetector& stall_detector, std::int64_t step);

  /// Returns, for each rank, the mean time per step that the rank works in the phases data and compute, in seconds. The
  /// mean is over the steps since the last call, up to but not including `step`. Collective if there are several hosts.
  /// If there is one host, only rank 0's result is meaningful.
  std::vector<double> since_last(std::int64_t step);
  /// Returns, for each rank, all seconds of work since the stall detector started. Like since_last, this call is
  /// collective if there are several hosts. On one host, only rank 0's result is meaningful.
  std::vector<double> worked() const;

 private:
  const Mpi& mpi_;
  const StallDetector& stall_detector_;
  std::int64_t step_;
  std::vector<double> last_;  ///< [rank] the result of worked() at the last call of since_last
};

/// Finds a rank for which the other ranks wait.
class Stragglers {
 public:
  /// `hosts`: the name of the host of each rank, by rank.
  explicit Stragglers(std::vector<std::string> hosts) : hosts_(std::move(hosts)) {}

  /// Adds the times of a few steps, which took `seconds` together. `rank_seconds`: the result of RankTimes::since_last.
  /// When a rank becomes a straggler, returns a warning. A straggler's time exceeds 1.5 times the upper median of the
  /// other ranks, and exceeds this median by 5 ms. Both conditions must hold three times in a row and for half a
  /// minute, because other programs can delay a rank for a shorter time.
  std::optional<std::string> add(std::span<const double> rank_seconds, double seconds);

 private:
  std::vector<std::string> hosts_;
  int slow_rank_ = -1, times_ = 0;
  double slow_for_ = 0.0;
  bool has_warned_ = false;
};

}  // namespace carillon
