#include "src/train/loop/duration_notice.h"

#include <fmt/format.h>

namespace carillon {
namespace {

constexpr double seconds_per_hour = 3600.0;

std::string duration_text(double seconds) {
  const double hours = seconds / seconds_per_hour;
  return hours < 48.0 ? fmt::format("{:.1f} hours", hours) : fmt::format("{:.0f} days", hours / 24.0);
}

}  // namespace

std::optional<std::string> DurationNotice::end_step(Clock::time_point end, std::int64_t steps_left) {
  constexpr double least_seconds = 10.0;
  if (decided_ || faster_.empty()) return std::nullopt;
  if (!first_end_) {
    first_end_ = end;
    return std::nullopt;
  }
  ++counted_;
  const double seconds = std::chrono::duration<double>(end - *first_end_).count();
  if (seconds < least_seconds) return std::nullopt;
  decided_ = true;
  const double left = seconds / static_cast<double>(counted_) * static_cast<double>(steps_left);
  if (left <= seconds_per_hour) return std::nullopt;
  return fmt::format("this training will take about {} at this speed; faster: {}", duration_text(left), faster_);
}

void DurationNotice::exclude(Clock::duration spent) {
  if (first_end_) *first_end_ += spent;
}

}  // namespace carillon
