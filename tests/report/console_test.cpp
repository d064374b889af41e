#include "src/report/console.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace carillon::testing {
namespace {

TEST(StepLine, HasTheReferencesForm) {
  const std::chrono::system_clock::time_point time{std::chrono::microseconds(1700000000123456)};
  // 4 towers of 32: 0.152 sec/batch is a step of 0.608 s.
  const std::string line = step_line(time, 10, 4.6449, 839.84, 0.608, 4);
  EXPECT_THAT(line, ::testing::MatchesRegex("....-..-.. ..:..:..\\.123456: step 10, loss = 4\\.64 "
                                            "\\(839\\.8 examples/sec; 0\\.152 sec/batch\\)"));
}

TEST(StepLine, EndsInTheGradientsNormIfThereIsOne) {
  EXPECT_THAT(step_line({}, 10, 4.6449, 839.84, 0.608, 4, 12.3456),
              ::testing::EndsWith("(839.8 examples/sec; 0.152 sec/batch), gradient norm = 12.3"));
}

}  // namespace
}  // namespace carillon::testing
