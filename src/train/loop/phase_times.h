// PhaseTimes: the time that a run spends in each of its phases. A phase may be entered any number of times.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>

#include "src/comm/stall/stall_detector.h"
#include "src/report/run_log.h"

namespace carillon {

class PhaseTimes {
 public:
  using Clock = std::chrono::steady_clock;

  /// The run is in Phase::start since `start`.
  explicit PhaseTimes(Clock::time_point start) : since_(start) {}

  void enter(Phase phase, Clock::time_point now) {
    spent_[index(phase_)] += now - since_;
    phase_ = phase;
    since_ = now;
  }

  /// Times up to `now`.
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

}  // namespace carillon
