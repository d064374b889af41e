#include "src/optim/sgd.h"

#include <gtest/gtest.h>
#include <omp.h>

#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

TEST(SgdUpdate, EqualsTheDefinitionAtEverySizeAndThreadCount) {
  const SgdParams params{.learning_rate = 0.1f, .l2_factor = 0.01f, .average_decay = 0.9f};
  for (const std::size_t count : {1u, 15u, 17u, 1000u, 100003u}) {
    for (const int threads : {1, 2, 3}) {
      omp_set_num_threads(threads);
      const std::vector<float> gradient = random_values(count, 1), before = random_values(count, 2);
      std::vector<float> value = before, average = random_values(count, 3);
      const std::vector<float> average_before = average;
      sgd_update_cpu(params, gradient, value, average);
      for (std::size_t i = 0; i < count; ++i) {
        const double w = before[i] - 0.1 * (gradient[i] + 0.01 * before[i]);
        ASSERT_NEAR(value[i], w, 1e-6) << count << ", " << i;
        ASSERT_NEAR(average[i], average_before[i] - 0.1 * (average_before[i] - w), 1e-6) << count << ", " << i;
      }
    }
  }
}

TEST(SumOfSquares, EqualsTheDefinition) {
  for (const std::size_t count : {0u, 1u, 16u, 1001u}) {
    const std::vector<float> values = random_values(count, 4);
    double expected = 0.0;
    for (const float value : values) expected += static_cast<double>(value) * value;
    EXPECT_NEAR(sum_of_squares_cpu(values), expected, 1e-9) << count;
  }
}

}  // namespace
}  // namespace carillon::testing
