// StepClock: the times of the steps since the last log line. Steps on a GPU are launched before earlier ones end, so
// the ends of steps determine their times.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>

namespace carillon {

class StepClock {
 public:
  using Clock = std::chrono::steady_clock;
  struct Means {  ///< seconds per step
    double step = 0.0, data_wait = 0.0, allreduce = 0.0;
  };

  /// Call before the first step.
  void start(Clock::time_point now = Clock::now()) { since_ = end_ = now; }
  /// Counts a launched step that waited so long for its batch.
  void take_step(double data_wait_seconds) { waits_of_taken_.push_back(data_wait_seconds); }
  /// The oldest launched step ended at `end`.
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
  /// Excludes time without steps.
  void exclude(Clock::duration spent) { since_ += spent; }

  /// The end of the last ended step.
  Clock::time_point end() const { return end_; }
  /// The time of all ended steps; above 0.
  double seconds() const {
    constexpr double least = 1e-9;  // a speed is divided by it
    return std::max(std::chrono::duration<double>(end_ - since_).count(), least);
  }
  /// Requires an ended step.
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

}  // namespace carillon
