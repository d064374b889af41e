#include <gtest/gtest.h>

#include "src/step/step_sums_kernels.h"
#include "tests/support/emulate.h"
#include "tests/support/step_ring.h"

namespace carillon::testing {
namespace {

TEST(StepSumsKernel, NotesTheLossAndTheRequestOfTheStepInHand) {
  StepRing ring(1, 2, 1, {0}, {0});
  const std::vector<std::uint32_t> rows{0};
  for (std::uint64_t step = 0; step < 5; ++step) {
    ring.put(step, {.pause = step == 3 ? 1.0f : 0.0f}, rows);
    ring.step_counter = step;
    const float loss = 0.5f + static_cast<float>(step);
    std::vector<float> sums(step_sum_count, -1.0f);
    emulate(StepSumsKernel{&loss, ring.table(), sums.data()});
    EXPECT_EQ(sums[cross_entropy_sum], loss) << step;
    EXPECT_EQ(sums[pause_sum], step == 3 ? 1.0f : 0.0f) << step;
    for (std::size_t i = 2; i < step_sum_count; ++i) EXPECT_EQ(sums[i], -1.0f) << i;
  }
}

}  // namespace
}  // namespace carillon::testing
