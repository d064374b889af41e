#include "kernels/image_input/image_input.h"

#include <gtest/gtest.h>

#include "carillon/core/error.h"
#include "kernels/image_input/image_input_kernels.h"
#include "tests/support/emulate.h"
#include "tests/support/noise_batch.h"
#include "tests/support/op_harness.h"
#include "tests/support/step_ring.h"

namespace carillon::testing {
namespace {

struct MixCase {
  std::int64_t batch;
  MixingParams params;
  std::int64_t channels;
};

constexpr std::uint64_t position = 40;

class MixImages : public ::testing::TestWithParam<MixCase> {
 protected:
  std::size_t batch_ = static_cast<std::size_t>(GetParam().batch);
  MixingParams params_ = GetParam().params;
  Shape sample_{params_.height, params_.width, GetParam().channels};
  std::size_t size_ = static_cast<std::size_t>(sample_.element_count());
  NoiseBatch samples_{position, batch_, size_};
  Mixing mixing_ = draw_mixing(params_, position);

  std::vector<float> of_cpu(int threads) {
    OpHarness harness(GetParam().batch, threads);
    Graph& graph = harness.graph();
    harness.finish(mix_images(graph, "mixing", image_input(graph, "input", {.sample = sample_}), params_));
    harness.step().batch = samples_.batch();
    const auto y = harness.forward();
    return {y.begin(), y.end()};
  }
};

TEST_P(MixImages, EqualsTheDefinition) {
  const std::vector<float> y = of_cpu(1);
  const Batch batch = samples_.batch();
  std::size_t blended = 0;
  for (std::size_t b = 0; b < batch_; ++b) {
    const std::uint8_t *const own = batch.images[b], *const other = batch.images[(b + batch_ - 1) % batch_];
    for (std::int32_t row = 0; row < params_.height; ++row) {
      for (std::size_t i = 0; i < size_ / params_.height; ++i) {
        const std::size_t at = row * (size_ / params_.height) + i;
        const auto column = static_cast<std::int32_t>(i / GetParam().channels);
        double part = mixing_.lambda;  // weight of the image itself; the other image has the weight 1 - part
        if (mixing_.cuts) part = mixing_.is_cut(row, column) ? 0.0 : 1.0;
        ASSERT_NEAR(y[b * size_ + at], part * own[at] + (1.0 - part) * other[at], 5e-5) << b << ", " << at;
        blended += part < 1.0;
      }
    }
  }
  EXPECT_GT(blended, 0u) << "a draw that mixes nothing";
}

TEST_P(MixImages, IsTheSameOnAnyNumberOfThreads) {
  const std::vector<float> y = of_cpu(1);
  EXPECT_EQ(of_cpu(2), y);
  EXPECT_EQ(of_cpu(3), y);
}

TEST_P(MixImages, AGpusKernelEqualsTheCpuToTheBit) {
  const std::vector<float> expected = of_cpu(1);
  StepRing ring(batch_, 2, 1, std::vector<std::uint8_t>(1), std::vector<std::int32_t>(1));
  ring.step_counter = 3;
  ring.put(3, {.first_position = position}, std::vector<std::uint32_t>(batch_));
  std::vector<float> x;
  for (const std::uint8_t* image : samples_.batch().images) x.insert(x.end(), image, image + size_);
  for (const ThreadOrder order : {ThreadOrder::ascending, ThreadOrder::descending}) {
    std::vector<float> y(x.size());
    emulate(MixImagesKernel<float>{params_, ring.table(), x.data(), y.data(), GetParam().batch,
                                   static_cast<std::int32_t>(GetParam().channels)},
            order);
    EXPECT_EQ(y, expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, MixImages,
                         ::testing::Values(MixCase{7, {.mixup = 1.0, .height = 9, .width = 5, .seed = 3}, 3},
                                           MixCase{67, {.mixup = 0.4, .height = 28, .width = 28, .seed = 3}, 1},
                                           MixCase{7, {.cutmix = 1.0, .height = 9, .width = 5, .seed = 4}, 3},
                                           MixCase{20, {.cutmix = 1.0, .height = 32, .width = 40, .seed = 4}, 3},
                                           MixCase{
                                               2, {.mixup = 1.0, .cutmix = 1.0, .height = 8, .width = 8, .seed = 5}, 4},
                                           MixCase{1, {.mixup = 1.0, .height = 3, .width = 3, .seed = 3}, 1}));

TEST(MixImages, RejectsInputsThatAreNotImages) {
  OpHarness harness(2);
  Graph& graph = harness.graph();
  const Value x = image_input(graph, "input", {.sample = {4, 5, 3}});
  EXPECT_THROW(mix_images(graph, "a", x, {.mixup = 1.0, .height = 5, .width = 4}), Error);
  EXPECT_THROW(mix_images(graph, "b", image_input(graph, "flat", {.sample = {60}}), {.mixup = 1.0}), Error);
  EXPECT_THROW(mix_images(graph, "c", harness.input("x", {2, 4, 5, 3}), {.mixup = 1.0, .height = 4, .width = 5}),
               Error);
}

}  // namespace
}  // namespace carillon::testing
