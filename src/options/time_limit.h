// Time limit: when a run must save and exit before the job ends.
#pragma once

#include <chrono>
#include <optional>

#include "carillon/options/checkpoint_options.h"

namespace carillon {

/// When a run that starts now must stop: --time-margin before its --time-limit, which counts from now or, for `slurm`,
/// is the end of the job (SLURM_JOB_END_TIME, seconds since 1970). Nothing without a limit. Errors: usage (a bad limit,
/// no Slurm job, or no time before the margin).
std::optional<std::chrono::steady_clock::time_point> stop_time(const CheckpointOptions& options);

}  // namespace carillon
