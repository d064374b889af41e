// Time limit: when a run is to save and end before something else ends it.
#pragma once

#include <chrono>
#include <optional>

#include "carillon/train/train_options.h"

namespace carillon {

/// When a run that starts now is to stop: --time-margin before its --time-limit, which counts from now, or, for
/// `slurm`, is the job's end (SLURM_JOB_END_TIME, seconds since 1970). None without a limit. Errors: usage (neither, no
/// such job, or no time before the margin).
std::optional<std::chrono::steady_clock::time_point> stop_time(const TrainOptions& options);

}  // namespace carillon
