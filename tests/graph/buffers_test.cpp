#include "carillon/graph/buffers.h"

#include <gtest/gtest.h>

#include "src/device/cpu_device.h"

namespace carillon::testing {
namespace {

TEST(BufferStore, HoldsItsInitialValuesAligned) {
  CpuDevice device(1);
  const BufferStore store({{.name = "mean", .shape = {3}, .initial_value = 0.5f},
                           {.name = "variance", .shape = {17}, .initial_value = 1.0f}},
                          device);
  EXPECT_EQ(store.values().size(), 16u + 32u);
  const Tensor mean = store.tensor(0), variance = store.tensor(1);
  EXPECT_EQ(std::vector<float>(mean.floats().begin(), mean.floats().end()), std::vector<float>(3, 0.5f));
  EXPECT_EQ(std::vector<float>(variance.floats().begin(), variance.floats().end()), std::vector<float>(17, 1.0f));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(variance.data) % tensor_alignment_bytes, 0u);
}

TEST(BufferStore, MayBeEmpty) {
  CpuDevice device(1);
  EXPECT_TRUE(BufferStore({}, device).values().empty());
}

}  // namespace
}  // namespace carillon::testing
