#include "kernels/scale/scale.h"

#include <gtest/gtest.h>

#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

TEST(Scale, MultipliesValuesAndGradients) {
  OpHarness harness(3, 2);
  harness.finish(scale(harness.graph(), "scale", harness.input("x", {3, 50000}), 0.125f));
  const auto y = harness.forward();
  for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], 0.125f * harness.values("x")[i]) << i;
  const std::vector<float> dy = OpHarness::output_gradient(y.size());
  harness.backward();
  for (std::size_t i = 0; i < dy.size(); ++i) ASSERT_EQ(harness.gradient("x")[i], 0.125f * dy[i]) << i;
}

}  // namespace
}  // namespace carillon::testing
