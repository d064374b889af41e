// RunSummary: what a run comes to, for a person to read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/report/accuracy.h"

namespace carillon {

/// Where a run's wall time went.
struct PhaseSeconds {
  double start = 0.0;        ///< from the program's start to the first step, or evaluation
  double data = 0.0;         ///< waiting for records
  double training = 0.0;     ///< in steps otherwise
  double evaluation = 0.0;   ///< of the moving averages, while training and at the end
  double checkpoints = 0.0;  ///< copying buffers and waiting for the disk; most of the writing goes on beside the steps
  double total() const { return start + data + training + evaluation + checkpoints; }
};

/// "reached precision 0.9840 (9840/10000) at step 2400, --stop-at-precision 0.98, after 34.21 s: start 0.40 s, data
/// 0.10 s, training 32.10 s, evaluation 1.21 s, checkpoints 0.40 s"
std::string target_line(std::int64_t step, const Accuracy& precision, double target, const PhaseSeconds& seconds);

struct RunSummary {
  struct Best {
    std::int64_t step = 0;
    Accuracy precision;
  };

  std::int64_t first_step = 0, last_step = 0;  ///< steps from the first to before the last
  std::int64_t global_batch = 0;
  std::optional<Best> best;  ///< evaluation, the first of several
  PhaseSeconds seconds;
  std::vector<double>
      rank_work;  ///< seconds, by rank: of its own work in steps, without what it waited for; or nothing
};

/// A run shorter than this has nothing to tell.
inline constexpr double min_summary_seconds = 10.0;

/// A table of 11 lines at most; none of a run shorter than `min_seconds`.
std::vector<std::string> summary_lines(const RunSummary& summary, double min_seconds = min_summary_seconds);

}  // namespace carillon
