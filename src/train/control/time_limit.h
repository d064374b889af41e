// Time limit: the time at which a run saves and ends, before the job ends.
#pragma once

#include <chrono>
#include <optional>

#include "carillon/train/train_options.h"

namespace carillon {

/// The time at which a run that starts now stops: --time-margin before --time-limit. The limit counts from now;
/// `slurm`: the end of the job (SLURM_JOB_END_TIME, seconds since 1970). None: there is no limit. Errors: usage (a bad
/// value, no SLURM_JOB_END_TIME, or a limit below the margin).
std::optional<std::chrono::steady_clock::time_point> stop_time(const TrainOptions& options);

}  // namespace carillon
