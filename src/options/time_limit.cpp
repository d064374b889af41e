#include "src/options/time_limit.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "carillon/core/error.h"

namespace carillon {
namespace {

using std::chrono::seconds;

/// Seconds since 1970 or from now; none: not a whole number from 1 to 2^32.
std::optional<seconds> seconds_in(std::string_view text) {
  constexpr std::int64_t highest = std::int64_t{1} << 32;
  std::int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  return whole && count > 0 && count <= highest ? std::optional(seconds(count)) : std::nullopt;
}

std::chrono::steady_clock::duration until_job_ends() {
  const char* const text = std::getenv("SLURM_JOB_END_TIME");
  if (text == nullptr) fail(ExitCode::usage, "--time-limit slurm requires a Slurm job: SLURM_JOB_END_TIME is not set");
  const std::optional<seconds> end = seconds_in(text);
  if (!end)
    fail(ExitCode::usage, "--time-limit slurm: SLURM_JOB_END_TIME is '{}', not a number of seconds since 1970", text);
  return *end - std::chrono::system_clock::now().time_since_epoch();
}

}  // namespace

std::optional<std::chrono::steady_clock::time_point> stop_time(const CheckpointOptions& options) {
  if (options.time_limit.empty()) return std::nullopt;
  const auto now = std::chrono::steady_clock::now();
  const seconds margin(options.time_margin);
  if (options.time_limit == "slurm") return now + until_job_ends() - margin;
  const std::optional<seconds> limit = seconds_in(options.time_limit);
  if (!limit)
    fail(ExitCode::usage, "--time-limit: '{}' is not a whole number of seconds above 0, and not slurm",
         options.time_limit);
  if (*limit <= margin) {
    fail(ExitCode::usage, "--time-limit {} must exceed --time-margin {} (both in seconds)", options.time_limit,
         options.time_margin);
  }
  return now + *limit - margin;
}

}  // namespace carillon
