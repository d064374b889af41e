// DurationNotice: says once, after the first steps, that a training will take more than an hour.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace carillon {

class DurationNotice {
 public:
  using Clock = std::chrono::steady_clock;

  /// `faster`: LoggingOptions::faster_choice.
  explicit DurationNotice(std::string faster) : faster_(std::move(faster)) {}

  /// A step ended at `end`, and `steps_left` follow it. Returns the notice at the first step that ends 10 seconds or
  /// more after the first one, if the rest takes more than an hour. The first step is not counted, because it prepares
  /// the ops.
  std::optional<std::string> end_step(Clock::time_point end, std::int64_t steps_left);
  /// Excludes time without steps.
  void exclude(Clock::duration spent);

 private:
  std::string faster_;
  bool decided_ = false;
  std::optional<Clock::time_point> first_end_;
  std::int64_t counted_ = 0;  ///< steps after the first one
};

}  // namespace carillon
