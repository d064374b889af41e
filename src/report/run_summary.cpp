#include "carillon/report/run_summary.h"

#include <fmt/format.h>

namespace carillon {

std::string target_line(std::int64_t step, const Precision& precision, double target, const PhaseSeconds& seconds) {
  return fmt::format(
      "reached precision {:.4f} ({}/{}) at step {}, --stop-at-precision {}, after {:.2f} s: start {:.2f} s, data "
      "{:.2f} s, training {:.2f} s, evaluation {:.2f} s, checkpoints {:.2f} s",
      precision.value(), precision.correct, precision.total, step, target, seconds.total(), seconds.start, seconds.data,
      seconds.training, seconds.evaluation, seconds.checkpoints);
}

}  // namespace carillon
