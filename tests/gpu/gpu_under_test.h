// The GPU that tests/gpu runs on: a real one, or the fake (tests/support/fake_cuda), of which more can be asked.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>

namespace carillon::testing {

/// What a fake GPU is told; a real one is as it is.
struct GpuConditions {
  std::uint64_t seed = 1;    ///< of the order in which it does what may be done in any order
  double eagerness = 0.0;    ///< probability that it does some work as soon as more is given
  bool fused_biases = true;  ///< whether its libraries have kernels that add biases
  std::size_t device_bytes = std::size_t{2} << 30;
};
void set_conditions(const GpuConditions& conditions);

/// What tests have not freed, where that is known: "1 stream"; else empty.
std::string left_on_gpu();
/// Launches of captured graphs so far; nothing where that is not known.
std::optional<std::uint64_t> graph_launches();

/// A test that has the GPU to itself, and leaves nothing on it.
class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override { set_conditions({}); }
  void TearDown() override { EXPECT_EQ(left_on_gpu(), ""); }
};

}  // namespace carillon::testing
