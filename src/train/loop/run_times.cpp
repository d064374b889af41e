#include "src/train/loop/run_times.h"

#include <fmt/format.h>

#include <algorithm>

namespace carillon {
namespace {

constexpr double seconds_per_hour = 3600.0;

std::string long_duration_text(double seconds) {
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
  return fmt::format("this training will take about {} at this speed; faster: {}", long_duration_text(left), faster_);
}

void DurationNotice::exclude(Clock::duration spent) {
  if (first_end_) *first_end_ += spent;
}

namespace {

constexpr int times_to_warn = 3;
constexpr double seconds_to_warn = 30.0;
constexpr double slow_factor = 1.5, slow_seconds = 0.005;

}  // namespace

RankTimes::RankTimes(const Mpi& mpi, const StallDetector& stall_detector, std::int64_t step)
    : mpi_(mpi), stall_detector_(stall_detector), step_(step), last_(worked()) {}

std::vector<double> RankTimes::worked() const {
  std::vector<double> seconds(static_cast<std::size_t>(mpi_.size()));
  for (const RankActivity& activity : stall_detector_.activities()) seconds[activity.rank] = activity.worked_seconds;
  if (mpi_.local_size() == mpi_.size()) return seconds;
  std::vector<std::int64_t> nanoseconds(seconds.size());
  nanoseconds[mpi_.rank()] = static_cast<std::int64_t>(1e9 * seconds[mpi_.rank()]);
  mpi_.sum(nanoseconds);
  for (std::size_t i = 0; i < seconds.size(); ++i) seconds[i] = 1e-9 * static_cast<double>(nanoseconds[i]);
  return seconds;
}

std::vector<double> RankTimes::since_last(std::int64_t step) {
  const std::vector<double> now = worked();
  const double steps = static_cast<double>(std::max<std::int64_t>(step - step_, 1));
  std::vector<double> seconds;
  for (std::size_t i = 0; i < now.size(); ++i) seconds.push_back((now[i] - last_[i]) / steps);
  last_ = now;
  step_ = step;
  return seconds;
}

std::optional<std::string> Stragglers::add(std::span<const double> rank_seconds, double seconds) {
  if (rank_seconds.size() < 2) return std::nullopt;
  const auto slowest = std::ranges::max_element(rank_seconds);
  const int rank = static_cast<int>(slowest - rank_seconds.begin());
  std::vector<double> others(rank_seconds.begin(), rank_seconds.end());
  others.erase(others.begin() + rank);
  const double usual = median(std::move(others));
  const bool is_slow = *slowest > slow_factor * usual && *slowest - usual > slow_seconds;
  if (!is_slow || rank != slow_rank_) {
    slow_rank_ = is_slow ? rank : -1;
    times_ = 0;
    slow_for_ = 0.0;
    has_warned_ = false;
  }
  if (!is_slow) return std::nullopt;
  times_ += 1;
  slow_for_ += seconds;
  if (has_warned_ || times_ < times_to_warn || slow_for_ < seconds_to_warn) return std::nullopt;
  has_warned_ = true;
  return fmt::format("rank {} on {} delays the other ranks: it works {:.3f} s per step, they work {:.3f} s", rank,
                     hosts_.at(rank), *slowest, usual);
}

}  // namespace carillon
