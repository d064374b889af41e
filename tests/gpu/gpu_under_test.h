// The GPU on which the tests in tests/gpu run: a real GPU, or the fake GPU (tests/support/fake_cuda). Some functions
// return results only for the fake GPU.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>

namespace carillon::testing {

/// Settings of the fake GPU; a real GPU ignores them.
struct GpuConditions {
  std::uint64_t seed = 1;              ///< seed of the order in which independent work runs
  double eagerness = 0.0;              ///< probability that the GPU does some work when more work is enqueued
  bool fused_biases = true;            ///< true: its libraries have kernels that add biases or sum bias gradients
  bool divided_bias_gradients = true;  ///< true: kernels that sum bias gradients divide sums over many rows
  std::size_t device_bytes = std::size_t{2} << 30;
};
void set_conditions(const GpuConditions& conditions);

/// Returns a list of the GPU objects that the tests have not freed, such as "1 stream". On a real GPU, the list is
/// always empty.
std::string left_on_gpu();
/// Returns how often captured graphs were launched, or nullopt on a real GPU.
std::optional<std::uint64_t> graph_launches();

/// Numbers of the host's calls since the process started, with the same meaning as in fake_cuda::Counts.
struct GpuCalls {
  std::uint64_t kernels = 0, graph_launches = 0, graph_nodes = 0, copies = 0, waits = 0;
};
/// Returns the numbers of calls so far, or nullopt on a real GPU.
std::optional<GpuCalls> gpu_calls();

/// A test that uses the GPU alone. Expects that all objects of the test are freed at the end of the test.
class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override { set_conditions({}); }
  void TearDown() override { EXPECT_EQ(left_on_gpu(), ""); }
};

}  // namespace carillon::testing
