#include "kernels/warp_images/warp_images.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "carillon/core/error.h"
#include "kernels/scale_input/scale_input.h"
#include "kernels/warp_images/warp_images_kernels.h"
#include "tests/support/emulate.h"
#include "tests/support/noise_batch.h"
#include "tests/support/op_harness.h"
#include "tests/support/step_ring.h"

namespace carillon::testing {
namespace {

struct WarpCase {
  std::int64_t batch;
  Shape sample;  ///< [height, width, channels]
  WarpParams params;
};

constexpr std::uint64_t position = 40;

class WarpImages : public ::testing::TestWithParam<WarpCase> {
 protected:
  std::size_t batch_ = static_cast<std::size_t>(GetParam().batch);
  Shape sample_ = GetParam().sample;
  std::size_t size_ = static_cast<std::size_t>(sample_.element_count());
  NoiseBatch samples_{position, batch_, size_};
  WarpImagesMap map_ = map_of(GetParam().params, {GetParam().batch, sample_[0], sample_[1], sample_[2]});

  std::vector<float> of_cpu(int threads) {
    OpHarness harness(GetParam().batch, threads);
    Graph& graph = harness.graph();
    harness.finish(warp_images(graph, "warp", scale_input(graph, "input", {.sample = sample_}), GetParam().params));
    harness.step().batch = samples_.batch();
    const auto y = harness.forward();
    return {y.begin(), y.end()};
  }
};

/// The four words that are drawn for a sample, as parts of the ranges from -1 to 1.
std::array<double, 4> drawn_parts(std::uint64_t seed, std::uint64_t at) {
  PhiloxDraws draws(seed, RandomPurpose::warping, at);
  std::array<double, 4> parts{};
  for (double& part : parts) part = 2.0 * uniform_float(draws.word()) - 1.0;
  return parts;
}

TEST_P(WarpImages, EqualsTheDefinition) {
  const std::vector<float> y = of_cpu(1);
  const WarpParams& params = GetParam().params;
  const std::int64_t height = sample_[0], width = sample_[1], channels = sample_[2];
  for (std::size_t b = 0; b < batch_; ++b) {
    const auto [turn, enlargement, down, right] = drawn_parts(params.seed, position + b);
    const double angle = turn * params.rotation * 3.141592653589793 / 180.0, factor = 1.0 + enlargement * params.zoom;
    const std::uint8_t* const image = samples_.batch().images[b];
    const auto pixel = [&](std::int64_t row, std::int64_t column, std::int64_t c) {
      row = std::clamp<std::int64_t>(row, 0, height - 1);
      column = std::clamp<std::int64_t>(column, 0, width - 1);
      return static_cast<double>(image[(row * width + column) * channels + c]);
    };
    const double middle = 0.5 * static_cast<double>(height - 1), centre = 0.5 * static_cast<double>(width - 1);
    const double moved_down = down * params.shift * static_cast<double>(height);
    const double moved_right = right * params.shift * static_cast<double>(width);
    for (std::int64_t i = 0; i < height * width; ++i) {
      const double v = static_cast<double>(i / width) - middle - moved_down;
      const double u = static_cast<double>(i % width) - centre - moved_right;
      const double row = middle + (std::cos(angle) * v + std::sin(angle) * u) / factor;
      const double column = centre + (-std::sin(angle) * v + std::cos(angle) * u) / factor;
      const auto top = static_cast<std::int64_t>(std::floor(row)), left = static_cast<std::int64_t>(std::floor(column));
      const double below = row - static_cast<double>(top), beside = column - static_cast<double>(left);
      for (std::int64_t c = 0; c < channels; ++c) {
        const double expected = (1 - below) * ((1 - beside) * pixel(top, left, c) + beside * pixel(top, left + 1, c)) +
                                below * ((1 - beside) * pixel(top + 1, left, c) + beside * pixel(top + 1, left + 1, c));
        ASSERT_NEAR(y[b * size_ + static_cast<std::size_t>(i * channels + c)], expected, 0.02) << b << ", " << i;
      }
    }
  }
}

TEST_P(WarpImages, IsTheSameOnAnyNumberOfThreads) {
  const std::vector<float> y = of_cpu(1);
  EXPECT_EQ(of_cpu(2), y);
  EXPECT_EQ(of_cpu(3), y);
}

TEST_P(WarpImages, AGpusKernelEqualsTheCpuToTheBit) {
  const std::vector<float> expected = of_cpu(1);
  StepRing ring(batch_, 2, 1, std::vector<std::uint8_t>(1), std::vector<std::int32_t>(1));
  ring.step_counter = 3;
  ring.put(3, {.first_position = position}, std::vector<std::uint32_t>(batch_));
  std::vector<float> x;
  for (const std::uint8_t* image : samples_.batch().images) x.insert(x.end(), image, image + size_);
  for (const ThreadOrder order : {ThreadOrder::ascending, ThreadOrder::descending}) {
    std::vector<float> y(x.size());
    emulate(WarpImagesKernel<float>{map_, ring.table(), x.data(), y.data(), GetParam().batch}, order);
    EXPECT_EQ(y, expected);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Forms, WarpImages,
    ::testing::Values(WarpCase{5, {9, 6, 3}, {.rotation = 90.0, .seed = 3}},
                      WarpCase{5, {28, 28, 1}, {.zoom = 0.9, .seed = 4}},
                      WarpCase{5, {8, 11, 4}, {.shift = 1.0, .seed = 5}},
                      WarpCase{67, {28, 28, 1}, {.rotation = 12.0, .zoom = 0.1, .shift = 0.1, .seed = 6}},
                      WarpCase{3, {1, 1, 2}, {.rotation = 30.0, .zoom = 0.5, .shift = 0.5, .seed = 7}}));

/// An image of which one pixel is white, and what becomes of it under the warp of stream position `at`.
std::vector<float> warped_dot(const WarpParams& params, std::uint64_t at, std::size_t dot) {
  OpHarness harness(1);
  Graph& graph = harness.graph();
  harness.finish(warp_images(graph, "warp", scale_input(graph, "input", {.sample = {5, 5, 1}}), params));
  std::vector<std::uint8_t> image(25);
  image[dot] = 200;
  const std::vector<const std::uint8_t*> images{image.data()};
  harness.step().batch = {.images = images, .first_position = at};
  const auto y = harness.forward();
  return {y.begin(), y.end()};
}

TEST(WarpImagesDraws, DoNotChangeTheImageWithoutRanges) {
  std::vector<float> expected(25);
  expected[7] = 200.0f;
  EXPECT_EQ(warped_dot({.seed = 3}, 40, 7), expected);
}

TEST(WarpImagesDraws, FillTheirRanges) {
  const WarpImagesMap map{
      .params = {.rotation = 30.0, .zoom = 0.25, .shift = 0.5, .seed = 3}, .height = 21, .width = 41};
  double least_angle = 1.0, most_angle = -1.0, least_factor = 9.0, most_factor = 0.0, most_down = 0.0, most_right = 0.0;
  for (std::uint64_t at = 0; at < 4000; ++at) {
    const Warp warp = map.draw(at);
    const double angle = std::atan2(warp.by_column.row, warp.by_row.row);
    const double factor = 1.0 / std::hypot(warp.by_column.row, warp.by_row.row);
    least_angle = std::min(least_angle, angle), most_angle = std::max(most_angle, angle);
    least_factor = std::min(least_factor, factor), most_factor = std::max(most_factor, factor);
    // The shift, turned and enlarged back, is what the centre lacks.
    const double row = warp.at(10, 20).row - 10.0, column = warp.at(10, 20).column - 20.0;
    const double down = -factor * (std::cos(angle) * row - std::sin(angle) * column);
    const double right = -factor * (std::sin(angle) * row + std::cos(angle) * column);
    most_down = std::max(most_down, down), most_right = std::max(most_right, right);
  }
  const double limit = 30.0 * 3.141592653589793 / 180.0;
  EXPECT_NEAR(least_angle, -limit, 0.005);
  EXPECT_NEAR(most_angle, limit, 0.005);
  EXPECT_NEAR(least_factor, 0.75, 0.005);
  EXPECT_NEAR(most_factor, 1.25, 0.005);
  EXPECT_NEAR(most_down, 10.5, 0.1);
  EXPECT_NEAR(most_right, 20.5, 0.1);
}

TEST(WarpImagesDraws, DifferFromSampleToSampleAndSeedToSeed) {
  const WarpParams params{.rotation = 20.0, .shift = 0.2, .seed = 3};
  WarpParams other = params;
  other.seed = 4;
  const std::vector<float> y = warped_dot(params, 40, 7);
  EXPECT_EQ(warped_dot(params, 40, 7), y);
  EXPECT_NE(warped_dot(params, 41, 7), y);
  EXPECT_NE(warped_dot(other, 40, 7), y);
}

TEST(WarpImagesDraws, RejectInputsThatAreNotImages) {
  OpHarness harness(2);
  Graph& graph = harness.graph();
  const Value x = scale_input(graph, "input", {.sample = {4, 5, 3}});
  EXPECT_THROW(warp_images(graph, "a", x, {.zoom = 1.0}), Error);
  EXPECT_THROW(warp_images(graph, "b", scale_input(graph, "flat", {.sample = {60}}), {.shift = 0.1}), Error);
  EXPECT_THROW(warp_images(graph, "c", harness.input("x", {2, 4, 5, 3}), {.shift = 0.1}), Error);
}

}  // namespace
}  // namespace carillon::testing
