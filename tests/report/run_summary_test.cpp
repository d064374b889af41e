#include "carillon/report/run_summary.h"

#include <gmock/gmock.h>

namespace carillon::testing {
namespace {

const PhaseSeconds times{.start = 0.4, .data = 0.1, .training = 32.1, .evaluation = 1.21, .checkpoints = 0.4};

TEST(TargetLine, TellsTheTimeFromTheStartByPhases) {
  EXPECT_EQ(
      target_line(2400, {.correct = 9840, .total = 10000}, 0.98, times),
      "reached precision 0.9840 (9840/10000) at step 2400, --stop-at-precision 0.98, after 34.21 s: start 0.40 s, "
      "data 0.10 s, training 32.10 s, evaluation 1.21 s, checkpoints 0.40 s");
}

}  // namespace
}  // namespace carillon::testing
