// StepClock: where the time of the steps since the last logged one went. A GPU takes steps some time before they are
// over: their time is told by their ends.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>

namespace carillon {

class StepClock {
 public:
  using Clock = std::chrono::steady_clock;
  struct Means {  ///< seconds a step
    double step = 0.0, data_wait = 0.0, allreduce = 0.0;
  };

  /// Before the first step.
  void start(Clock::time_point now = Clock::now()) { since_ = end_ = now; }
  /// A step was taken whose batch was waited for so long.
  void take_step(double data_wait_seconds) { waits_of_taken_.push_back(data_wait_seconds); }
  /// The oldest step taken is over, at `end`.
  void end_step(double allreduce_seconds, Clock::time_point end) {
    ++ended_;
    allreduce_seconds_ += allreduce_seconds;
    data_wait_seconds_ += waits_of_taken_.front();
    waits_of_taken_.pop_front();
    end_ = end;
  }
  /// The steps that are over have been told of.
  void restart() {
    since_ = end_;
    ended_ = 0;
    data_wait_seconds_ = allreduce_seconds_ = 0.0;
  }
  /// Takes out time in which no steps were taken.
  void leave_out(Clock::duration spent) { since_ += spent; }

  /// When the last step that is over was.
  Clock::time_point end() const { return end_; }
  /// Of all steps that are over together; above 0.
  double seconds() const {
    constexpr double least = 1e-9;  // a speed is divided by it
    return std::max(std::chrono::duration<double>(end_ - since_).count(), least);
  }
  /// At least one step is over.
  Means means() const {
    const double ended = static_cast<double>(ended_);
    return {
        .step = seconds() / ended, .data_wait = data_wait_seconds_ / ended, .allreduce = allreduce_seconds_ / ended};
  }

 private:
  std::deque<double> waits_of_taken_;  ///< of steps that are not over
  std::int64_t ended_ = 0;
  double data_wait_seconds_ = 0.0, allreduce_seconds_ = 0.0;
  Clock::time_point since_, end_;
};

}  // namespace carillon
