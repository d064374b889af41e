// Tests images that are warped (rotated, scaled and shifted).
#include "kernels/image_input/image_input.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "carillon/core/error.h"
#include "kernels/image_input/image_input_kernels.h"
#include "tests/kernels/image_input_cases.h"
#include "tests/kernels/image_input_reference.h"
#include "tests/support/noise_batch.h"

namespace carillon::testing {
namespace {

constexpr std::uint64_t position = 40;

struct WarpCase {
  std::int64_t batch;
  Shape sample;  ///< [height, width, channels]
  WarpParams params;
};

class WarpedImages : public ::testing::TestWithParam<WarpCase> {
 protected:
  std::size_t batch_ = static_cast<std::size_t>(GetParam().batch);
  Shape sample_ = GetParam().sample;
  std::size_t size_ = static_cast<std::size_t>(sample_.element_count());
  NoiseBatch samples_{position, batch_, size_};

  std::vector<float> of_cpu(int threads) {
    return run({.sample = sample_, .warp = GetParam().params}, samples_.batch(), threads);
  }
};

TEST_P(WarpedImages, EqualsTheDefinition) {
  const std::vector<float> y = of_cpu(1);
  for (std::size_t b = 0; b < batch_; ++b) {
    const std::vector<double> expected =
        image_by_the_book({.sample = sample_, .warp = GetParam().params}, samples_.batch().images[b], position + b);
    for (std::size_t i = 0; i < size_; ++i) ASSERT_NEAR(y[b * size_ + i], expected[i], 0.02) << b << ", " << i;
  }
}

TEST_P(WarpedImages, IsTheSameOnAnyNumberOfThreads) {
  const std::vector<float> y = of_cpu(1);
  EXPECT_EQ(of_cpu(2), y);
  EXPECT_EQ(of_cpu(3), y);
}

INSTANTIATE_TEST_SUITE_P(
    Forms, WarpedImages,
    ::testing::Values(WarpCase{5, {9, 6, 3}, {.rotation = 90.0, .seed = 3}},
                      WarpCase{5, {28, 28, 1}, {.zoom = 0.9, .seed = 4}},
                      WarpCase{5, {8, 11, 4}, {.shift = 1.0, .seed = 5}},
                      WarpCase{67, {28, 28, 1}, {.rotation = 12.0, .zoom = 0.1, .shift = 0.1, .seed = 6}},
                      WarpCase{3, {1, 1, 2}, {.rotation = 30.0, .zoom = 0.5, .shift = 0.5, .seed = 7}}));

/// Warps a 5x5 image in which only pixel number `dot` is not 0. `at`: stream position, which determines the warp.
std::vector<float> warped_dot(const WarpParams& params, std::uint64_t at, std::size_t dot) {
  Image image(25);
  image[dot] = 200;
  return run({.sample = {5, 5, 1}, .warp = params}, {image}, at);
}

TEST(WarpedImagesDraws, DoNotChangeTheImageWithoutRanges) {
  std::vector<float> expected(25);
  expected[7] = 200.0f;
  EXPECT_EQ(warped_dot({.seed = 3}, 40, 7), expected);
}

TEST(WarpedImagesDraws, FillTheirRanges) {
  const ImageInputMap map({.sample = {21, 41, 1}, .warp = {.rotation = 30.0, .zoom = 0.25, .shift = 0.5, .seed = 3}});
  double least_angle = 1.0, most_angle = -1.0, least_factor = 9.0, most_factor = 0.0, most_down = 0.0, most_right = 0.0;
  for (std::uint64_t at = 0; at < 4000; ++at) {
    const Warp warp = map.draw_warp(at);
    const double angle = std::atan2(warp.by_column.row, warp.by_row.row);
    const double factor = 1.0 / std::hypot(warp.by_column.row, warp.by_row.row);
    least_angle = std::min(least_angle, angle), most_angle = std::max(most_angle, angle);
    least_factor = std::min(least_factor, factor), most_factor = std::max(most_factor, factor);
    // (row, column) is the displacement of the centre (10, 20) by the warp. The shift is this displacement without the
    // rotation and the scale.
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

TEST(WarpedImagesDraws, DifferFromSampleToSampleAndSeedToSeed) {
  const WarpParams params{.rotation = 20.0, .shift = 0.2, .seed = 3};
  WarpParams other = params;
  other.seed = 4;
  const std::vector<float> y = warped_dot(params, 40, 7);
  EXPECT_EQ(warped_dot(params, 40, 7), y);
  EXPECT_NE(warped_dot(params, 41, 7), y);
  EXPECT_NE(warped_dot(other, 40, 7), y);
}

TEST(WarpImages, ChangesAnInputOpThatWasAddedBefore) {
  const WarpParams params{.rotation = 20.0, .zoom = 0.2, .shift = 0.1, .seed = 3};
  const ImageInputParams plain = with_seed(standardized, 9);
  const NoiseBatch samples(position, 5, 3072);
  OpHarness harness(5);
  const Value images = image_input(harness.graph(), "input", plain);
  warp_images(harness.graph(), images, params);
  harness.finish(images);
  harness.step().batch = samples.batch();
  const auto y = harness.forward();
  EXPECT_EQ(std::vector<float>(y.begin(), y.end()), run(warped(plain, params), samples.batch()));
}

TEST(WarpImages, RejectsInputsThatAreNotImages) {
  OpHarness harness(2);
  Graph& graph = harness.graph();
  const Value x = image_input(graph, "input", {.sample = {4, 5, 3}});
  EXPECT_THROW(warp_images(graph, x, {.zoom = 1.0}), Error);
  EXPECT_THROW(warp_images(graph, image_input(graph, "flat", {.sample = {60}}), {.shift = 0.1}), Error);
  EXPECT_THROW(warp_images(graph, relu(graph, "x", x), {.shift = 0.1}), Error);
}

}  // namespace
}  // namespace carillon::testing
