#include <gtest/gtest.h>

#include "kernels/scale_input/scale_input.h"
#include "kernels/scale_input/scale_input_kernels.h"
#include "tests/support/emulate.h"
#include "tests/support/op_harness.h"
#include "tests/support/padded_channels.h"
#include "tests/support/step_ring.h"

namespace carillon::testing {
namespace {

struct Case {
  std::int64_t batch;
  Shape sample;
};

class ScaleInputKernels : public ::testing::TestWithParam<Case> {
 protected:
  static constexpr float scale = 1.0f / 255.0f;
  static constexpr std::uint32_t row_count = 37;
  std::size_t batch_ = static_cast<std::size_t>(GetParam().batch);
  std::size_t image_bytes_ = static_cast<std::size_t>(GetParam().sample.element_count());
  StepRing ring_{batch_, 4, static_cast<std::uint32_t>(image_bytes_), random_bytes(row_count* image_bytes_, 3),
                 std::vector<std::int32_t>(row_count)};
  std::vector<std::uint32_t> rows_ = scattered_rows(batch_, row_count);

  void SetUp() override {
    ring_.step_counter = 7;
    ring_.put(7, {}, rows_);
  }

  std::vector<float> of_cpu() {
    OpHarness harness(GetParam().batch);
    harness.finish(scale_input(harness.graph(), "input", {.sample = GetParam().sample, .scale = scale}));
    std::vector<const std::uint8_t*> images;
    for (const std::uint32_t row : rows_) images.push_back(ring_.image(row));
    harness.step().batch.images = images;
    const auto y = harness.forward();
    return {y.begin(), y.end()};
  }

  std::uint32_t channels_ = static_cast<std::uint32_t>(GetParam().sample.extents().back());

  template <typename T>
  std::vector<T> of_kernel(ThreadOrder order, std::uint32_t more_channels = 0) {
    const std::uint32_t pixels = static_cast<std::uint32_t>(image_bytes_) / channels_,
                        output = channels_ + more_channels;
    std::vector<T> y(batch_ * pixels * output, T{7});
    emulate(ScaleInputKernel<T>{ring_.table(), scale, y.data(), GetParam().batch, pixels, channels_, output}, order);
    return y;
  }
};

TEST_P(ScaleInputKernels, EqualTheCpuToTheBit) {
  const std::vector<float> expected = of_cpu();
  for (const ThreadOrder order : {ThreadOrder::ascending, ThreadOrder::descending}) {
    EXPECT_EQ(of_kernel<float>(order), expected);
    const std::vector<Bf16> y = of_kernel<Bf16>(order);
    for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i].bits, to_bf16(expected[i]).bits) << i;
  }
}

TEST_P(ScaleInputKernels, WriteZerosBehindAPixelsChannels) {
  const std::vector<float> y = of_kernel<float>(ThreadOrder::ascending);
  EXPECT_EQ(of_kernel<float>(ThreadOrder::ascending, 5), padded_channels(y, channels_, channels_ + 5));
}

INSTANTIATE_TEST_SUITE_P(Shapes, ScaleInputKernels,
                         ::testing::Values(Case{1, {28, 28, 1}}, Case{3, {5, 3, 1}}, Case{100, {28, 28, 1}},
                                           Case{257, {16, 16, 1}}, Case{3, {257, 1, 1}}));

}  // namespace
}  // namespace carillon::testing
