// Tests images that are standardised, with and without the distortions of TensorFlow's CIFAR-10 tutorial.
#include "kernels/image_input/image_input.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "kernels/image_input/image_input_kernels.h"
#include "tests/kernels/image_input_cases.h"
#include "tests/kernels/image_input_reference.h"

namespace carillon::testing {
namespace {

/// Makes images of uniform noise with a range of `spread`. If `spread` is smaller, the means of the channels differ
/// more.
std::vector<Image> make_images(std::size_t count, const ImageInputParams& params, float spread = 255.0f) {
  const auto channels = static_cast<std::size_t>(params.sample[2]);
  std::vector<Image> images;
  for (std::size_t i = 0; i < count; ++i) {
    Image& image = images.emplace_back(static_cast<std::size_t>(params.sample.element_count()));
    const std::vector<float> noise = random_values(image.size(), 1000 + i, 0.0f, 1.0f);
    for (std::size_t j = 0; j < image.size(); ++j) {
      const float level = (255.0f - spread) * static_cast<float>((i * 7 + j % channels * 3) % 11) / 11.0f;
      image[j] = static_cast<std::uint8_t>(level + spread * noise[j]);
    }
  }
  return images;
}

struct StandardizedCase {
  ImageInputParams params;
  int threads = 1;
};

class StandardizedImages : public ::testing::TestWithParam<StandardizedCase> {};

TEST_P(StandardizedImages, EqualsTheDocumentedStepsInTheirOrder) {
  const auto& [params, threads] = GetParam();
  for (const float spread : {255.0f, 40.0f, 2.0f}) {
    const auto images = make_images(37, params, spread);
    const std::vector<float> y = run(params, images, first_position, threads);
    const std::size_t row = y.size() / images.size();
    for (std::size_t b = 0; b < images.size(); ++b) {
      const std::vector<double> expected = image_by_the_book(params, images[b].data(), first_position + b);
      ASSERT_EQ(expected.size(), row);
      for (std::size_t i = 0; i < row; ++i) ASSERT_NEAR(y[b * row + i], expected[i], 2e-6) << b << ", " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, StandardizedImages,
    ::testing::Values(StandardizedCase{with_seed(standardized, 5)}, StandardizedCase{with_seed(standardized, 6), 2},
                      StandardizedCase{undistorted(standardized)}, StandardizedCase{undistorted(standardized), 3},
                      StandardizedCase{cropped({28, 28, 1}, 28, 28, 1), 2},
                      StandardizedCase{cropped({9, 14, 2}, 4, 13, 2)}, StandardizedCase{cropped({7, 5, 4}, 1, 1, 3)},
                      StandardizedCase{cropped({400, 400, 1}, 399, 400, 4), 2}));

TEST(ImageInputStandardized, StandardisedImagesHaveMeanZeroAndDeviationOne) {
  for (const bool distort : {true, false}) {
    ImageInputParams params = with_seed(standardized, 9);
    params.distort = distort;
    const auto images = make_images(200, params, 120.0f);
    const std::vector<float> y = run(params, images, 4711);
    for (std::size_t b = 0; b < images.size(); ++b) {
      double mean = 0.0, squares = 0.0;
      for (std::size_t i = b * 1728; i < (b + 1) * 1728; ++i) {
        mean += y[i] / 1728.0;
        squares += static_cast<double>(y[i]) * y[i] / 1728.0;
      }
      ASSERT_NEAR(mean, 0.0, 1e-6) << b;
      ASSERT_NEAR(squares, 1.0, 1e-5) << b;
    }
  }
}

TEST(ImageInputStandardized, ConstantImagesBecomeZero) {
  for (const ImageInputParams& params : {standardized, undistorted(standardized)}) {
    for (const int level : {0, 1, 128, 255}) {
      const std::vector<Image> images(8, Image(3072, static_cast<std::uint8_t>(level)));
      for (const float v : run(params, images, 0)) ASSERT_NEAR(v, 0.0, 1e-9) << level;
    }
  }
}

TEST(ImageInputStandardized, OneValueApartIsDividedByTheFloor) {
  std::vector<Image> images(1, Image(3072, 100));
  // With this pixel, the standard deviation of the image is slightly below the op's minimum, 1 / sqrt(1728).
  images[0][(16 * 32 + 16) * 3] = 101;
  const std::vector<float> y = run(undistorted(standardized), images, 0);
  const double mean = 1.0 / 1728.0;
  EXPECT_NEAR(y[(12 * 24 + 12) * 3], (1.0 - mean) * std::sqrt(1728.0), 1e-5);
  EXPECT_NEAR(y[0], -mean * std::sqrt(1728.0), 1e-6);
}

TEST(ImageInputStandardized, APositionHasTheSameBytesHoweverTheStreamIsCut) {
  const ImageInputParams params = with_seed(standardized, 77);
  const auto images = make_images(96, params);
  const std::uint64_t first = 1000000;
  const std::vector<float> whole = run(params, images, first);
  for (const std::size_t batch : {1u, 24u, 32u, 48u, 96u}) {
    for (const int threads : {1, 2}) {
      std::vector<float> pieces;
      for (std::size_t begin = 0; begin < images.size(); begin += batch) {
        const auto from = images.begin() + static_cast<std::ptrdiff_t>(begin);
        const std::vector<Image> part(from, from + static_cast<std::ptrdiff_t>(batch));
        const std::vector<float> y = run(params, part, first + begin, threads);
        pieces.insert(pieces.end(), y.begin(), y.end());
      }
      ASSERT_EQ(pieces.size(), whole.size());
      EXPECT_EQ(std::memcmp(pieces.data(), whole.data(), whole.size() * sizeof(float)), 0) << batch << ", " << threads;
    }
  }
}

TEST(ImageInputStandardized, AShortBatchLeavesTheRestAlone) {
  OpHarness harness(4);
  harness.finish(image_input(harness.graph(), "input", standardized));
  const Image image = make_images(1, standardized)[0];
  const std::vector<const std::uint8_t*> pointers(2, image.data());
  harness.step().batch.images = pointers;
  const auto y = harness.forward();
  EXPECT_TRUE(std::any_of(y.begin(), y.begin() + 2 * 1728, [](float v) { return v != 0.0f; }));
  EXPECT_TRUE(std::all_of(y.begin() + 2 * 1728, y.end(), [](float v) { return v == 0.0f; }));
}

class StandardizedDraws : public ::testing::Test {
 protected:
  static constexpr std::uint64_t count = 100000;
  static ImageDraw draw(std::uint64_t position, std::uint64_t seed = 20) {
    return ImageInputMap(with_seed(standardized, seed)).draw(position, 0);
  }

  /// Makes many draws and counts how often bin_of(draw) returns each bin. Returns Pearson's chi-squared statistic of
  /// the counts, for bins that are equally probable.
  template <std::size_t bins, typename BinOf>
  static double chi_square(const BinOf& bin_of) {
    std::array<double, bins> found{};
    for (std::uint64_t p = 0; p < count; ++p) found.at(static_cast<std::size_t>(bin_of(draw(p)))) += 1.0;
    const double expected = static_cast<double>(count) / static_cast<double>(bins);
    double sum = 0.0;
    for (const double n : found) sum += (n - expected) * (n - expected) / expected;
    return sum;
  }
};

// The bounds are the 0.999 quantiles of the chi-squared distribution with (number of bins - 1) degrees of freedom.
TEST_F(StandardizedDraws, CropOffsetsAreUniformAndIndependent) {
  EXPECT_LT(chi_square<9>([](const ImageDraw& d) { return d.top; }), 26.12);
  EXPECT_LT(chi_square<9>([](const ImageDraw& d) { return d.left; }), 26.12);
  EXPECT_LT(chi_square<81>([](const ImageDraw& d) { return d.top * 9 + d.left; }), 124.84);
}

TEST_F(StandardizedDraws, HalfAreFlippedAtAnyOffset) {
  EXPECT_LT(chi_square<2>([](const ImageDraw& d) { return d.mirrored; }), 10.83);
  EXPECT_LT(chi_square<18>([](const ImageDraw& d) { return d.left * 2 + d.mirrored; }), 40.79);
}

TEST_F(StandardizedDraws, BrightnessAndContrastAreUniformInTheirRanges) {
  for (std::uint64_t p = 0; p < count; ++p) {
    ASSERT_GE(draw(p).brightness, -63.0f);
    ASSERT_LT(draw(p).brightness, 63.0f);
    ASSERT_GE(draw(p).contrast, 0.2);
    ASSERT_LT(draw(p).contrast, 1.8);
  }
  const auto brightness_bin = [](const ImageDraw& d) { return (d.brightness + 63.0f) / 126.0f * 8.0f; };
  const auto contrast_bin = [](const ImageDraw& d) { return (d.contrast - 0.2) / 1.6 * 8.0; };
  EXPECT_LT(chi_square<8>(brightness_bin), 24.32);
  EXPECT_LT(chi_square<8>(contrast_bin), 24.32);
  EXPECT_LT(chi_square<64>([&](const ImageDraw& d) {
              return static_cast<int>(brightness_bin(d)) * 8 + static_cast<int>(contrast_bin(d));
            }),
            103.44);
}

TEST_F(StandardizedDraws, TheExtremeWordsStayInTheRanges) {
  EXPECT_EQ(uniform_between(0, -63.0f, 63.0f), -63.0f);
  EXPECT_LT(uniform_between(~0u, -63.0f, 63.0f), 63.0f);
  EXPECT_GE(uniform_between(0, 0.2f, 1.8f), 0.2);
  EXPECT_LT(uniform_between(~0u, 0.2f, 1.8f), 1.8);
}

// An implementation in Python computed these numbers. Later releases and GPUs must draw the same random numbers.
TEST_F(StandardizedDraws, EqualKnownAnswers) {
  const auto expect = [](std::uint64_t position, const ImageDraw& known) {
    const ImageDraw found = draw(position, 1);
    EXPECT_EQ(found.top, known.top);
    EXPECT_EQ(found.left, known.left);
    EXPECT_EQ(found.mirrored, known.mirrored);
    EXPECT_FLOAT_EQ(found.brightness, known.brightness);
    EXPECT_FLOAT_EQ(found.contrast, known.contrast);
  };
  expect(0, {.top = 3, .left = 6, .mirrored = false, .brightness = 34.7732692f, .contrast = 0.311341667f});
  expect(1, {.top = 1, .left = 3, .mirrored = true, .brightness = -62.0316592f, .contrast = 1.109640121f});
  expect((1ull << 32) + 7, {.top = 4, .left = 7, .mirrored = true, .brightness = 14.9607621f, .contrast = 1.5254289f});
}

TEST_F(StandardizedDraws, DifferBySeedAndByEveryBitOfThePosition) {
  const auto same = [](const ImageDraw& a, const ImageDraw& b) {
    return a.brightness == b.brightness && a.contrast == b.contrast;
  };
  EXPECT_TRUE(same(draw(5), draw(5)));
  EXPECT_FALSE(same(draw(5), draw(5, 21)));
  for (int bit = 0; bit < 64; ++bit) EXPECT_FALSE(same(draw(5), draw(5 ^ (std::uint64_t{1} << bit)))) << bit;
}

}  // namespace
}  // namespace carillon::testing
