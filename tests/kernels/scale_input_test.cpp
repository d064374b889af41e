#include "kernels/scale_input/scale_input.h"

#include <gtest/gtest.h>

#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

TEST(ScaleInput, GathersAndScalesEveryPixelAtEveryThreadCount) {
  for (const int threads : {1, 2, 3}) {
    constexpr std::int64_t batch = 65;
    OpHarness harness(batch, threads);
    harness.finish(scale_input(harness.graph(), "input", {.sample = {28, 28, 1}, .scale = 0.5f}));
    std::vector<std::vector<std::uint8_t>> images;
    std::vector<const std::uint8_t*> pointers;
    for (int b = 0; b < batch; ++b) {
      std::vector<std::uint8_t>& image = images.emplace_back(784);
      for (std::size_t i = 0; i < 784; ++i) image[i] = static_cast<std::uint8_t>(b * 31 + i * 7);
    }
    for (const auto& image : images) pointers.push_back(image.data());
    harness.step().batch.images = pointers;
    const auto y = harness.forward();
    for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], 0.5f * images[i / 784][i % 784]) << i;
  }
}

}  // namespace
}  // namespace carillon::testing
