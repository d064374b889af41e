// StepClock: where the time of the steps since the last logged one went.
#pragma once

#include <chrono>
#include <cstdint>

namespace carillon {

class StepClock {
 public:
  using Clock = std::chrono::steady_clock;
  struct Means {  ///< seconds a step
    double step = 0.0, data_wait = 0.0, allreduce = 0.0;
  };

  void restart(Clock::time_point now = Clock::now()) {
    *this = {};
    since_ = now;
  }
  void add_step(double data_wait_seconds) {
    ++steps_;
    data_wait_seconds_ += data_wait_seconds;
  }
  void add_allreduce(double seconds) { allreduce_seconds_ += seconds; }
  /// Takes out time in which no steps were taken.
  void leave_out(Clock::duration spent) { since_ += spent; }

  /// Of all steps together.
  double seconds(Clock::time_point now = Clock::now()) const {
    return std::chrono::duration<double>(now - since_).count();
  }
  /// At least one step has been added.
  Means means(Clock::time_point now = Clock::now()) const {
    const double steps = static_cast<double>(steps_);
    return {
        .step = seconds(now) / steps, .data_wait = data_wait_seconds_ / steps, .allreduce = allreduce_seconds_ / steps};
  }

 private:
  std::int64_t steps_ = 0;
  double data_wait_seconds_ = 0.0, allreduce_seconds_ = 0.0;
  Clock::time_point since_;
};

}  // namespace carillon
