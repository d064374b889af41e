#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cifar_distort/cifar_distort.h"
#include "kernels/cifar_distort/cifar_distort_kernels.h"
#include "tests/support/emulate.h"
#include "tests/support/op_harness.h"
#include "tests/support/padded_channels.h"
#include "tests/support/step_ring.h"

namespace carillon::testing {
namespace {

struct Case {
  std::int64_t batch;
  CifarDistortParams params;
};

class CifarDistortKernels : public ::testing::TestWithParam<Case> {
 protected:
  static constexpr std::uint32_t row_count = 23;
  static constexpr std::uint64_t first_position = 0xFFFFFFF0u;  // positions cross 32 bits
  const CifarDistortParams& params_ = GetParam().params;
  std::size_t batch_ = static_cast<std::size_t>(GetParam().batch);
  std::uint32_t image_bytes_ = static_cast<std::uint32_t>(params_.source.element_count());
  StepRing ring_{batch_, 2, image_bytes_, images(), std::vector<std::int32_t>(row_count)};
  std::vector<std::uint32_t> rows_ = scattered_rows(batch_, row_count);

  void SetUp() override {
    ring_.step_counter = 5;
    ring_.put(5, {.first_position = first_position}, rows_);
  }

  /// Noise; every fourth image nearly constant, where the deviation has its floor.
  std::vector<std::uint8_t> images() const {
    std::vector<std::uint8_t> bytes = random_bytes(std::size_t{row_count} * image_bytes_, 11);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if (i / image_bytes_ % 4 == 0) bytes[i] = static_cast<std::uint8_t>(200 + bytes[i] / 255);
    }
    return bytes;
  }

  std::vector<float> of_cpu() {
    OpHarness harness(GetParam().batch);
    harness.finish(cifar_distort(harness.graph(), "input", params_));
    std::vector<const std::uint8_t*> pointers;
    for (const std::uint32_t row : rows_) pointers.push_back(ring_.image(row));
    harness.step().batch.images = pointers;
    harness.step().batch.first_position = first_position;
    const auto y = harness.forward();
    return {y.begin(), y.end()};
  }

  template <typename T>
  std::vector<T> of_kernel(ThreadOrder order, std::int64_t more_channels = 0) {
    const auto extent = [](std::int64_t n) { return static_cast<std::uint32_t>(n); };
    const std::int64_t channels = params_.source[0] + more_channels;
    std::vector<T> y(batch_ * static_cast<std::size_t>(params_.crop_height * params_.crop_width * channels), T{7});
    emulate(CifarDistortKernel<T>{.table = ring_.table(),
                                  .distort = params_.distort,
                                  .seed = params_.seed,
                                  .channels = static_cast<int>(params_.source[0]),
                                  .source = {extent(params_.source[1]), extent(params_.source[2])},
                                  .crop = {extent(params_.crop_height), extent(params_.crop_width)},
                                  .output = y.data(),
                                  .output_channels = extent(channels),
                                  .batch = GetParam().batch},
            order);
    return y;
  }
};

TEST_P(CifarDistortKernels, EqualTheCpuToTheBit) {
  const std::vector<float> expected = of_cpu();
  for (const ThreadOrder order : {ThreadOrder::ascending, ThreadOrder::descending}) {
    EXPECT_EQ(of_kernel<float>(order), expected);
    const std::vector<Bf16> y = of_kernel<Bf16>(order);
    for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i].bits, to_bf16(expected[i]).bits) << i;
  }
}

TEST_P(CifarDistortKernels, WriteZerosBehindAPixelsChannels) {
  const auto channels = static_cast<std::size_t>(params_.source[0]);
  EXPECT_EQ(of_kernel<float>(ThreadOrder::descending, 5),
            padded_channels(of_kernel<float>(ThreadOrder::ascending), channels, channels + 5));
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, CifarDistortKernels,
    ::testing::Values(Case{1, {.seed = 5}}, Case{100, {.seed = 6}}, Case{100, {.distort = false}},
                      Case{3, {.source = {1, 28, 28}, .crop_height = 28, .crop_width = 28, .seed = 1}},
                      Case{257, {.source = {2, 9, 14}, .crop_height = 4, .crop_width = 13, .seed = 2}},
                      Case{3, {.source = {4, 7, 5}, .crop_height = 1, .crop_width = 1, .seed = 3}},
                      Case{3, {.source = {1, 400, 400}, .crop_height = 399, .crop_width = 400, .seed = 4}}));

}  // namespace
}  // namespace carillon::testing
