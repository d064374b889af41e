#include "kernels/cifar_distort/cifar_distort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "carillon/core/error.h"
#include "kernels/cifar_distort/cifar_distort_kernels.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

using Image = std::vector<std::uint8_t>;

/// Images of noise around a level a channel, `spread` wide.
std::vector<Image> make_images(std::size_t count, const CifarDistortParams& params, float spread = 255.0f) {
  const std::size_t plane = static_cast<std::size_t>(params.source[1] * params.source[2]);
  std::vector<Image> images;
  for (std::size_t i = 0; i < count; ++i) {
    Image& image = images.emplace_back(static_cast<std::size_t>(params.source.element_count()));
    const std::vector<float> noise = random_values(image.size(), 1000 + i, 0.0f, 1.0f);
    for (std::size_t j = 0; j < image.size(); ++j) {
      const float level = (255.0f - spread) * static_cast<float>((i * 7 + j / plane * 3) % 11) / 11.0f;
      image[j] = static_cast<std::uint8_t>(level + spread * noise[j]);
    }
  }
  return images;
}

/// The op's output for `images` as the batch that starts at stream position `first_position`.
std::vector<float> run(const CifarDistortParams& params, const std::vector<Image>& images, std::uint64_t first_position,
                       int threads = 1) {
  OpHarness harness(static_cast<std::int64_t>(images.size()), threads);
  harness.finish(cifar_distort(harness.graph(), "input", params));
  std::vector<const std::uint8_t*> pointers;
  for (const Image& image : images) pointers.push_back(image.data());
  harness.step().batch.images = pointers;
  harness.step().batch.first_position = first_position;
  const auto y = harness.forward();
  return {y.begin(), y.end()};
}

CropPlaces places_of(const CifarDistortParams& params) {
  return {static_cast<std::uint32_t>(params.source[1] - params.crop_height + 1),
          static_cast<std::uint32_t>(params.source[2] - params.crop_width + 1)};
}

/// Brightness, then contrast a channel, on values [pixels, channels].
void distort_by_the_book(std::vector<double>& values, std::size_t channels, const CifarDistortDraw& draw) {
  for (double& v : values) v += draw.brightness;
  for (std::size_t c = 0; c < channels; ++c) {
    double mean = 0.0;
    for (std::size_t i = c; i < values.size(); i += channels) mean += values[i];
    mean /= static_cast<double>(values.size() / channels);
    for (std::size_t i = c; i < values.size(); i += channels) values[i] = (values[i] - mean) * draw.contrast + mean;
  }
}

void standardise_by_the_book(std::vector<double>& values) {
  const double count = static_cast<double>(values.size());
  double mean = 0.0, variance = 0.0;
  for (const double v : values) mean += v / count;
  for (const double v : values) variance += (v - mean) * (v - mean) / count;
  const double divisor = std::max(std::sqrt(variance), 1.0 / std::sqrt(count));
  for (double& v : values) v = (v - mean) / divisor;
}

/// The documented steps one after the other, in double.
std::vector<double> by_the_book(const CifarDistortParams& params, const Image& image, std::uint64_t position) {
  const auto channels = static_cast<std::size_t>(params.source[0]);
  const auto height = static_cast<std::size_t>(params.source[1]), width = static_cast<std::size_t>(params.source[2]);
  const auto rows = static_cast<std::size_t>(params.crop_height), columns = static_cast<std::size_t>(params.crop_width);
  CifarDistortDraw draw{.offset_y = static_cast<std::uint32_t>(height - rows) / 2,
                        .offset_x = static_cast<std::uint32_t>(width - columns) / 2};
  if (params.distort) draw = draw_cifar_distortion(params.seed, position, places_of(params));
  std::vector<double> values;
  for (std::size_t y = 0; y < rows; ++y) {
    for (std::size_t x = 0; x < columns; ++x) {
      const std::size_t from = draw.offset_x + (draw.flip ? columns - 1 - x : x);
      for (std::size_t c = 0; c < channels; ++c) {
        values.push_back(image[c * height * width + (draw.offset_y + y) * width + from]);
      }
    }
  }
  if (params.distort) distort_by_the_book(values, channels, draw);
  standardise_by_the_book(values);
  return values;
}

struct Case {
  CifarDistortParams params;
  int threads = 1;
};

class CifarDistort : public ::testing::TestWithParam<Case> {};

TEST_P(CifarDistort, EqualsTheDocumentedStepsInTheirOrder) {
  const auto& [params, threads] = GetParam();
  const std::uint64_t first = 0xFFFFFFF0u;  // positions cross 32 bits
  for (const float spread : {255.0f, 40.0f, 2.0f}) {
    const auto images = make_images(37, params, spread);
    const std::vector<float> y = run(params, images, first, threads);
    const std::size_t row = y.size() / images.size();
    for (std::size_t b = 0; b < images.size(); ++b) {
      const std::vector<double> expected = by_the_book(params, images[b], first + b);
      ASSERT_EQ(expected.size(), row);
      for (std::size_t i = 0; i < row; ++i) ASSERT_NEAR(y[b * row + i], expected[i], 2e-6) << b << ", " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, CifarDistort,
    ::testing::Values(Case{{.seed = 5}}, Case{{.seed = 6}, 2}, Case{{.distort = false}}, Case{{.distort = false}, 3},
                      Case{{.source = {1, 28, 28}, .crop_height = 28, .crop_width = 28, .seed = 1}, 2},
                      Case{{.source = {2, 9, 14}, .crop_height = 4, .crop_width = 13, .seed = 2}},
                      Case{{.source = {4, 7, 5}, .crop_height = 1, .crop_width = 1, .seed = 3}},
                      Case{{.source = {1, 400, 400}, .crop_height = 399, .crop_width = 400, .seed = 4}, 2}));

TEST(CifarDistort, StandardisedImagesHaveMeanZeroAndDeviationOne) {
  for (const bool distort : {true, false}) {
    const CifarDistortParams params{.distort = distort, .seed = 9};
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

TEST(CifarDistort, ConstantImagesBecomeZero) {
  for (const bool distort : {true, false}) {
    for (const int level : {0, 1, 128, 255}) {
      const std::vector<Image> images(8, Image(3072, static_cast<std::uint8_t>(level)));
      for (const float v : run({.distort = distort}, images, 0)) ASSERT_NEAR(v, 0.0, 1e-9) << level;
    }
  }
}

TEST(CifarDistort, OneValueApartIsDividedByTheFloor) {
  std::vector<Image> images(1, Image(3072, 100));
  images[0][16 * 32 + 16] = 101;  // its deviation is just under 1 / sqrt(1728)
  const std::vector<float> y = run({.distort = false}, images, 0);
  const double mean = 1.0 / 1728.0;
  EXPECT_NEAR(y[(12 * 24 + 12) * 3], (1.0 - mean) * std::sqrt(1728.0), 1e-5);
  EXPECT_NEAR(y[0], -mean * std::sqrt(1728.0), 1e-6);
}

TEST(CifarDistort, APositionHasTheSameBytesHoweverTheStreamIsCut) {
  const CifarDistortParams params{.seed = 77};
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

TEST(CifarDistort, AShortBatchLeavesTheRestAlone) {
  OpHarness harness(4);
  harness.finish(cifar_distort(harness.graph(), "input", {}));
  const Image image = make_images(1, {})[0];
  const std::vector<const std::uint8_t*> pointers(2, image.data());
  harness.step().batch.images = pointers;
  const auto y = harness.forward();
  EXPECT_TRUE(std::any_of(y.begin(), y.begin() + 2 * 1728, [](float v) { return v != 0.0f; }));
  EXPECT_TRUE(std::all_of(y.begin() + 2 * 1728, y.end(), [](float v) { return v == 0.0f; }));
}

TEST(CifarDistort, RefusesParametersOutOfRange) {
  const auto refused = [](const CifarDistortParams& params) {
    Graph graph(1);
    EXPECT_THROW(cifar_distort(graph, "input", params), Error);
  };
  refused({.source = {32, 32, 3}});
  refused({.source = {3, 32}});
  refused({.crop_height = 33});
  refused({.crop_width = 0});
}

class CifarDistortDraws : public ::testing::Test {
 protected:
  static constexpr std::uint64_t count = 100000;
  static CifarDistortDraw draw(std::uint64_t position) { return draw_cifar_distortion(20, position, {9, 9}); }

  /// Pearson's statistic of `bin_of` over the draws, against equal shares.
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

// Bounds are the 0.999 quantiles of chi-square with one degree of freedom less than there are bins.
TEST_F(CifarDistortDraws, CropOffsetsAreUniformAndIndependent) {
  EXPECT_LT(chi_square<9>([](const CifarDistortDraw& d) { return d.offset_y; }), 26.12);
  EXPECT_LT(chi_square<9>([](const CifarDistortDraw& d) { return d.offset_x; }), 26.12);
  EXPECT_LT(chi_square<81>([](const CifarDistortDraw& d) { return d.offset_y * 9 + d.offset_x; }), 124.84);
}

TEST_F(CifarDistortDraws, HalfAreFlippedAtAnyOffset) {
  EXPECT_LT(chi_square<2>([](const CifarDistortDraw& d) { return d.flip; }), 10.83);
  EXPECT_LT(chi_square<18>([](const CifarDistortDraw& d) { return d.offset_x * 2 + d.flip; }), 40.79);
}

TEST_F(CifarDistortDraws, BrightnessAndContrastAreUniformInTheirRanges) {
  for (std::uint64_t p = 0; p < count; ++p) {
    ASSERT_GE(draw(p).brightness, -63.0f);
    ASSERT_LT(draw(p).brightness, 63.0f);
    ASSERT_GE(draw(p).contrast, 0.2);
    ASSERT_LT(draw(p).contrast, 1.8);
  }
  const auto brightness_bin = [](const CifarDistortDraw& d) { return (d.brightness + 63.0f) / 126.0f * 8.0f; };
  const auto contrast_bin = [](const CifarDistortDraw& d) { return (d.contrast - 0.2) / 1.6 * 8.0; };
  EXPECT_LT(chi_square<8>(brightness_bin), 24.32);
  EXPECT_LT(chi_square<8>(contrast_bin), 24.32);
  EXPECT_LT(chi_square<64>([&](const CifarDistortDraw& d) {
              return static_cast<int>(brightness_bin(d)) * 8 + static_cast<int>(contrast_bin(d));
            }),
            103.44);
}

TEST_F(CifarDistortDraws, TheExtremeWordsStayInTheRanges) {
  EXPECT_EQ(uniform_between(0, -63.0f, 63.0f), -63.0f);
  EXPECT_LT(uniform_between(~0u, -63.0f, 63.0f), 63.0f);
  EXPECT_GE(uniform_between(0, 0.2f, 1.8f), 0.2);
  EXPECT_LT(uniform_between(~0u, 0.2f, 1.8f), 1.8);
}

// Values of a second implementation in Python. Later releases and GPUs must use the same random numbers.
TEST_F(CifarDistortDraws, EqualKnownAnswers) {
  const auto expect = [](std::uint64_t position, const CifarDistortDraw& known) {
    const CifarDistortDraw found = draw_cifar_distortion(1, position, {9, 9});
    EXPECT_EQ(found.offset_y, known.offset_y);
    EXPECT_EQ(found.offset_x, known.offset_x);
    EXPECT_EQ(found.flip, known.flip);
    EXPECT_FLOAT_EQ(found.brightness, known.brightness);
    EXPECT_FLOAT_EQ(found.contrast, known.contrast);
  };
  expect(0, {.offset_y = 3, .offset_x = 6, .flip = false, .brightness = 34.7732692f, .contrast = 0.311341667f});
  expect(1, {.offset_y = 1, .offset_x = 3, .flip = true, .brightness = -62.0316592f, .contrast = 1.109640121f});
  expect((1ull << 32) + 7,
         {.offset_y = 4, .offset_x = 7, .flip = true, .brightness = 14.9607621f, .contrast = 1.5254289f});
}

TEST_F(CifarDistortDraws, DifferBySeedAndByEveryBitOfThePosition) {
  const auto same = [](const CifarDistortDraw& a, const CifarDistortDraw& b) {
    return a.brightness == b.brightness && a.contrast == b.contrast;
  };
  EXPECT_TRUE(same(draw(5), draw(5)));
  EXPECT_FALSE(same(draw(5), draw_cifar_distortion(21, 5, {9, 9})));
  for (int bit = 0; bit < 64; ++bit) EXPECT_FALSE(same(draw(5), draw(5 ^ (std::uint64_t{1} << bit)))) << bit;
}

}  // namespace
}  // namespace carillon::testing
