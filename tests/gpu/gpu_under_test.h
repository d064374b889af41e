// The GPU that tests/gpu runs on: a real GPU, or the fake one (tests/support/fake_cuda), which has more functions.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>

namespace carillon::testing {

/// Settings of the fake GPU; a real GPU ignores them.
struct GpuConditions {
  std::uint64_t seed = 1;              ///< seed of the order of independent work
  double eagerness = 0.0;              ///< probability that the GPU does some work when it gets more work
  bool fused_biases = true;            ///< whether its libraries have kernels that add biases or sum their gradients
  bool divided_bias_gradients = true;  ///< whether kernels that sum gradients of biases divide sums over many rows
  std::size_t device_bytes = std::size_t{2} << 30;
};
void set_conditions(const GpuConditions& conditions);

/// The objects that tests have not freed, such as "1 stream"; empty on a real GPU.
std::string left_on_gpu();
/// The number of launches of captured graphs; empty on a real GPU.
std::optional<std::uint64_t> graph_launches();

/// The host's calls since the start of the process, with the meaning of fake_cuda::Counts.
struct GpuCalls {
  std::uint64_t kernels = 0, graph_launches = 0, graph_nodes = 0, copies = 0, waits = 0;
};
/// Empty on a real GPU.
std::optional<GpuCalls> gpu_calls();

/// A test that uses the GPU exclusively and frees all its objects.
class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override { set_conditions({}); }
  void TearDown() override { EXPECT_EQ(left_on_gpu(), ""); }
};

}  // namespace carillon::testing
