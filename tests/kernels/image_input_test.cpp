#include "kernels/image_input/image_input.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "carillon/core/error.h"
#include "kernels/image_input/image_input_kernels.h"
#include "tests/support/emulate.h"
#include "tests/support/noise_batch.h"
#include "tests/support/op_harness.h"
#include "tests/support/padded_channels.h"
#include "tests/support/step_ring.h"

namespace carillon::testing {
namespace {

using Image = std::vector<std::uint8_t>;

constexpr std::uint64_t first_position = 0xFFFFFFF0u;  // the batch's positions exceed 32 bits

std::vector<float> run(const ImageInputParams& params, const Batch& batch, int threads = 1,
                       Arithmetic arithmetic = Arithmetic::fp32) {
  CpuDevice device(threads);
  OpHarness harness(static_cast<std::int64_t>(batch.images.size()), device, arithmetic);
  harness.finish(image_input(harness.graph(), "input", params));
  harness.step().batch = batch;
  const auto y = harness.forward();
  return {y.begin(), y.end()};
}

/// The output of the op for a batch of `images` that starts at stream position `first`.
std::vector<float> run(const ImageInputParams& params, const std::vector<Image>& images, std::uint64_t first,
                       int threads = 1) {
  std::vector<const std::uint8_t*> pointers;
  for (const Image& image : images) pointers.push_back(image.data());
  return run(params, {.images = pointers, .first_position = first}, threads);
}

const ImageInputParams normalized{.values = PixelValues::normalized,
                                  .mean = {0.4914f, 0.4822f, 0.4465f},
                                  .deviation = {0.247f, 0.2435f, 0.2616f, 1.0f},
                                  .mirroring = ImageMirroring::random};
/// The preprocessing of TensorFlow's CIFAR-10 tutorial.
const ImageInputParams standardized{.values = PixelValues::standardized,
                                    .brightness = 63.0f,
                                    .contrast = {0.2f, 1.8f},
                                    .crop_height = 24,
                                    .crop_width = 24,
                                    .mirroring = ImageMirroring::random};

ImageInputParams with_seed(ImageInputParams params, std::uint64_t seed) {
  params.seed = seed;
  return params;
}

ImageInputParams undistorted(ImageInputParams params) {
  params.distort = false;
  return params;
}

ImageInputParams of_images(ImageInputParams params, const Shape& sample) {
  params.sample = sample;
  return params;
}

ImageInputParams cropped(const Shape& sample, std::int64_t height, std::int64_t width, std::uint64_t seed) {
  ImageInputParams params = with_seed(of_images(standardized, sample), seed);
  params.crop_height = height;
  params.crop_width = width;
  return params;
}

ImageInputParams padded(ImageInputParams params, std::int64_t padding, ImagePadding mode, std::int64_t cutout = 0) {
  params.padding = padding;
  params.padding_mode = mode;
  params.cutout = cutout;
  params.seed = 7;
  return params;
}

ImageInputParams warped(ImageInputParams params, const WarpParams& warp) {
  params.warp = warp;
  return params;
}

ImageInputParams alternating(ImageInputParams params, std::uint64_t record_count) {
  params.mirroring = ImageMirroring::alternating;
  params.record_count = record_count;
  return params;
}

// The kernel of a GPU

struct KernelCase {
  std::int64_t batch;
  ImageInputParams params;
};

class ImageInputKernels : public ::testing::TestWithParam<KernelCase> {
 protected:
  static constexpr std::uint32_t row_count = 23;
  const ImageInputParams& params_ = GetParam().params;
  ImageInputMap map_{params_};
  std::size_t batch_ = static_cast<std::size_t>(GetParam().batch);
  std::uint32_t image_bytes_ = static_cast<std::uint32_t>(params_.sample.element_count());
  StepRing ring_{batch_, 2, image_bytes_, images(), std::vector<std::int32_t>(row_count)};
  std::vector<std::uint32_t> rows_ = scattered_rows(batch_, row_count), records_;

  void SetUp() override {
    for (std::uint32_t b = 0; b < batch_; ++b) records_.push_back(49999 - 17 * b);
    ring_.step_counter = 5;
    ring_.put(5, {.first_position = first_position}, rows_, records_);
  }

  /// Noise. Every fourth image is nearly constant, so its standard deviation is below the minimum that the op uses.
  std::vector<std::uint8_t> images() const {
    std::vector<std::uint8_t> bytes = random_bytes(std::size_t{row_count} * image_bytes_, 11);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if (i / image_bytes_ % 4 == 0) bytes[i] = static_cast<std::uint8_t>(200 + bytes[i] / 255);
    }
    return bytes;
  }

  std::vector<float> of_cpu(Arithmetic arithmetic = Arithmetic::fp32) {
    std::vector<const std::uint8_t*> pointers;
    for (const std::uint32_t row : rows_) pointers.push_back(ring_.image(row));
    return run(params_, {pointers, {}, records_, first_position}, 1, arithmetic);
  }

  template <typename T>
  std::vector<float> of_kernel(ThreadOrder order, std::int32_t more_channels = 0) {
    const std::int32_t channels = map_.channels + more_channels;
    std::vector<T> y(batch_ * static_cast<std::size_t>(map_.pixels() * channels), T{7});
    emulate(ImageInputKernel<T>{.table = ring_.table(),
                                .map = map_,
                                .output = y.data(),
                                .output_channels = channels,
                                .batch = GetParam().batch},
            order);
    std::vector<float> values;
    for (const T value : y) values.push_back(to_float(value));
    return values;
  }
};

TEST_P(ImageInputKernels, EqualTheCpuToTheBit) {
  const std::vector<float> expected = of_cpu(), rounded = of_cpu(Arithmetic::bf16);
  for (const ThreadOrder order : {ThreadOrder::ascending, ThreadOrder::descending}) {
    EXPECT_EQ(of_kernel<float>(order), expected);
    EXPECT_EQ(of_kernel<Bf16>(order), rounded);
  }
  if (map_.warps) return;  // a warped value is rounded twice, so it may differ
  for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_EQ(rounded[i], to_float(to_bf16(expected[i]))) << i;
}

TEST_P(ImageInputKernels, WriteZerosBehindAPixelsChannels) {
  const auto channels = static_cast<std::size_t>(map_.channels);
  EXPECT_EQ(of_kernel<float>(ThreadOrder::descending, 5),
            padded_channels(of_kernel<float>(ThreadOrder::ascending), channels, channels + 5));
}

const ImageInputParams scaled{.sample = {28, 28, 1}, .scale = 1.0f / 255.0f};

INSTANTIATE_TEST_SUITE_P(Scaled, ImageInputKernels,
                         ::testing::Values(KernelCase{1, scaled}, KernelCase{3, of_images(scaled, {5, 3, 1})},
                                           KernelCase{100, scaled}, KernelCase{257, of_images(scaled, {16, 16, 1})},
                                           KernelCase{3, of_images(scaled, {257, 1, 1})},
                                           KernelCase{3, of_images(scaled, {5, 7, 9})},
                                           KernelCase{3, of_images(scaled, {60})}));
INSTANTIATE_TEST_SUITE_P(
    Standardized, ImageInputKernels,
    ::testing::Values(KernelCase{1, with_seed(standardized, 5)}, KernelCase{100, with_seed(standardized, 6)},
                      KernelCase{100, undistorted(standardized)}, KernelCase{3, cropped({28, 28, 1}, 28, 28, 1)},
                      KernelCase{257, cropped({9, 14, 2}, 4, 13, 2)}, KernelCase{3, cropped({7, 5, 4}, 1, 1, 3)},
                      KernelCase{3, cropped({400, 400, 1}, 399, 400, 4)},
                      KernelCase{5, padded(standardized, 3, ImagePadding::zero, 5)}));
INSTANTIATE_TEST_SUITE_P(
    Normalized, ImageInputKernels,
    ::testing::Values(KernelCase{41, normalized}, KernelCase{41, padded(normalized, 4, ImagePadding::zero)},
                      KernelCase{41, padded(normalized, 2, ImagePadding::reflect, 12)},
                      KernelCase{41, padded(of_images(normalized, {5, 9, 1}), 4, ImagePadding::reflect, 5)},
                      KernelCase{41, padded(alternating(normalized, 50000), 2, ImagePadding::reflect, 3)},
                      KernelCase{41, padded(of_images(normalized, {7, 6, 4}), 3, ImagePadding::zero, 1)},
                      KernelCase{41, undistorted(padded(normalized, 3, ImagePadding::zero, 8))}));
INSTANTIATE_TEST_SUITE_P(
    Warped, ImageInputKernels,
    ::testing::Values(
        KernelCase{5, warped(of_images(scaled, {9, 6, 3}), {.rotation = 90.0, .seed = 3})},
        KernelCase{5, warped(scaled, {.zoom = 0.9, .seed = 4})},
        KernelCase{5, warped(of_images(scaled, {8, 11, 4}), {.shift = 1.0, .seed = 5})},
        KernelCase{67, warped(scaled, {.rotation = 12.0, .zoom = 0.1, .shift = 0.1, .seed = 6})},
        KernelCase{3, warped(of_images(scaled, {1, 1, 2}), {.rotation = 30.0, .zoom = 0.5, .shift = 0.5, .seed = 7})},
        KernelCase{9, warped(with_seed(standardized, 5), {.rotation = 12.0, .zoom = 0.1, .seed = 6})},
        KernelCase{9, warped(padded(normalized, 2, ImagePadding::reflect, 12), {.shift = 0.2, .seed = 6})}));

// Scaled

TEST(ImageInput, GathersAndScalesEveryPixelAtEveryThreadCount) {
  for (const int threads : {1, 2, 3}) {
    std::vector<Image> images;
    for (int b = 0; b < 65; ++b) {
      Image& image = images.emplace_back(784);
      for (std::size_t i = 0; i < 784; ++i) image[i] = static_cast<std::uint8_t>(b * 31 + i * 7);
    }
    const std::vector<float> y = run({.sample = {28, 28, 1}, .scale = 0.5f}, images, 0, threads);
    for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], 0.5f * images[i / 784][i % 784]) << i;
  }
}

// Standardized

/// Images of noise. Each channel has its own mean, and the noise is `spread` wide.
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

/// Changes brightness, then contrast per channel, of values [pixels, channels].
void distort_by_the_book(std::vector<double>& values, std::size_t channels, const ImageDraw& draw) {
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

/// Does the documented steps one after the other, in double.
std::vector<double> standardized_by_the_book(const ImageInputParams& params, const Image& image,
                                             std::uint64_t position) {
  const auto height = static_cast<std::size_t>(params.sample[0]), width = static_cast<std::size_t>(params.sample[1]),
             channels = static_cast<std::size_t>(params.sample[2]);
  const auto rows = static_cast<std::size_t>(params.crop_height), columns = static_cast<std::size_t>(params.crop_width);
  ImageDraw draw{.top = static_cast<std::int32_t>(height - rows) / 2,
                 .left = static_cast<std::int32_t>(width - columns) / 2};
  if (params.distort) draw = ImageInputMap(params).draw(position, 0);
  const auto top = static_cast<std::size_t>(draw.top), left = static_cast<std::size_t>(draw.left);
  std::vector<double> values;
  for (std::size_t y = 0; y < rows; ++y) {
    for (std::size_t x = 0; x < columns; ++x) {
      const std::size_t pixel = (top + y) * width + left + (draw.mirrored ? columns - 1 - x : x);
      for (std::size_t c = 0; c < channels; ++c) values.push_back(image[pixel * channels + c]);
    }
  }
  if (params.distort) distort_by_the_book(values, channels, draw);
  standardise_by_the_book(values);
  return values;
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
      const std::vector<double> expected = standardized_by_the_book(params, images[b], first_position + b);
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
  images[0][(16 * 32 + 16) * 3] = 101;  // makes the standard deviation slightly smaller than 1 / sqrt(1728)
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

  /// Pearson's chi-squared statistic of `bin_of` over the draws, for bins of equal probability.
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

// The bounds are the 0.999 quantiles of chi-squared. The degrees of freedom are the number of bins less one.
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

// Computed by a second implementation in Python. Later releases and GPUs must use the same random numbers.
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

// Normalized

/// The rows of one channel of an image that is padded on all sides.
using Plane = std::vector<std::vector<double>>;

Plane padded_plane(const std::uint8_t* image, const Shape& shape, std::int64_t channel, std::int64_t padding,
                   ImagePadding mode) {
  Plane plane(static_cast<std::size_t>(shape[0]));
  for (std::int64_t i = 0; i < shape[0] * shape[1]; ++i) {
    plane[static_cast<std::size_t>(i / shape[1])].push_back(image[i * shape[2] + channel]);
  }
  for (auto& row : plane) {
    for (std::int64_t p = 1; p <= padding; ++p) {
      const bool reflects = mode == ImagePadding::reflect;
      const double before = reflects ? row[static_cast<std::size_t>(2 * p - 1)] : 0.0;
      const double after = reflects ? row[row.size() - static_cast<std::size_t>(2 * p)] : 0.0;
      row.insert(row.begin(), before);
      row.push_back(after);
    }
  }
  for (std::int64_t p = 1; p <= padding; ++p) {
    const std::vector<double> black(plane[0].size());
    const bool reflects = mode == ImagePadding::reflect;
    const auto before = reflects ? plane[static_cast<std::size_t>(2 * p - 1)] : black;
    const auto after = reflects ? plane[plane.size() - static_cast<std::size_t>(2 * p)] : black;
    plane.insert(plane.begin(), before);
    plane.push_back(after);
  }
  return plane;
}

/// Does the documented steps one after the other, in double.
std::vector<double> normalized_by_the_book(const ImageInputParams& params, const std::uint8_t* image,
                                           std::uint64_t position, std::uint32_t record) {
  const std::int64_t height = params.sample[0], width = params.sample[1], channels = params.sample[2];
  const std::int64_t padding = params.distort ? params.padding : 0;
  const ImageDraw placed = ImageInputMap(params).draw(position, record);
  std::vector<double> values(static_cast<std::size_t>(params.sample.element_count()));
  for (std::int64_t c = 0; c < channels; ++c) {
    const Plane plane = padded_plane(image, params.sample, c, padding, params.padding_mode);
    for (std::int64_t y = 0; y < height; ++y) {
      for (std::int64_t x = 0; x < width; ++x) {
        const std::int64_t column = padding + placed.left + (placed.mirrored ? width - 1 - x : x);
        const double v =
            plane.at(static_cast<std::size_t>(padding + placed.top + y)).at(static_cast<std::size_t>(column));
        const auto k = static_cast<std::size_t>(c);
        const bool is_cut = params.distort && y >= placed.cut_top && y < placed.cut_top + params.cutout &&
                            x >= placed.cut_left && x < placed.cut_left + params.cutout;
        values[static_cast<std::size_t>((y * width + x) * channels + c)] =
            is_cut ? 0.0 : (v / 255.0 - params.mean[k]) / params.deviation[k];
      }
    }
  }
  return values;
}

class NormalizedImages : public ::testing::TestWithParam<ImageInputParams> {
 protected:
  static constexpr std::size_t count = 41;
  std::size_t image_bytes_ = static_cast<std::size_t>(GetParam().sample.element_count());
};

TEST_P(NormalizedImages, EqualsTheDocumentedStepsInTheirOrder) {
  const NoiseBatch samples(0, count, image_bytes_);
  Batch batch = samples.batch();
  batch.first_position = first_position;
  const std::vector<float> y = run(GetParam(), batch, 2);
  for (std::size_t b = 0; b < count; ++b) {
    const std::vector<double> expected =
        normalized_by_the_book(GetParam(), batch.images[b], first_position + b, batch.records[b]);
    for (std::size_t i = 0; i < image_bytes_; ++i) {
      ASSERT_NEAR(y[b * image_bytes_ + i], expected[i], 1e-6) << b << ", " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, NormalizedImages,
                         ::testing::Values(normalized, padded(normalized, 4, ImagePadding::zero),
                                           padded(normalized, 2, ImagePadding::reflect, 12),
                                           padded({.sample = {5, 9, 1}, .values = PixelValues::normalized}, 4,
                                                  ImagePadding::reflect, 5),
                                           padded(alternating(normalized, 50000), 2, ImagePadding::reflect, 3),
                                           padded(of_images(normalized, {7, 6, 4}), 3, ImagePadding::zero, 1),
                                           undistorted(padded(normalized, 3, ImagePadding::zero, 8))));

TEST(ImageInput, DrawsEveryPlaceAndMirrorsHalf) {
  const ImageInputMap map(padded(normalized, 2, ImagePadding::reflect, 12));
  std::map<std::pair<std::int32_t, std::int32_t>, int> places;
  std::set<std::int32_t> cut_rows;
  int mirrored = 0;
  constexpr int samples = 10000;
  for (std::uint64_t position = 0; position < samples; ++position) {
    const ImageDraw placed = map.draw(position, 0);
    ++places[{placed.top, placed.left}];
    cut_rows.insert(placed.cut_top);
    mirrored += placed.mirrored;
  }
  EXPECT_EQ(places.size(), 25u);
  for (const auto& [place, found] : places)
    EXPECT_NEAR(found, samples / 25, 5 * std::sqrt(samples / 25)) << place.first;
  EXPECT_NEAR(mirrored, samples / 2, 5 * std::sqrt(samples / 4));
  EXPECT_EQ(cut_rows.size(), 21u);
  EXPECT_EQ(*cut_rows.begin(), 0);
}

ImageInputParams in_turn(std::uint64_t record_count, std::uint64_t seed) {
  return alternating({.sample = {1, 2, 1}, .seed = seed}, record_count);
}

/// Which images are mirrored in epoch `epoch`, if its order is `records`.
std::vector<bool> mirrored_in(std::uint64_t epoch, const std::vector<std::uint32_t>& records, std::uint64_t seed) {
  const std::uint8_t image[2] = {0, 255};
  const std::vector<const std::uint8_t*> images(records.size(), image);
  const std::vector<float> y = run(in_turn(records.size(), seed), {images, {}, records, epoch * records.size()}, 2);
  std::vector<bool> mirrored(records.size());
  for (std::size_t i = 0; i < records.size(); ++i) mirrored[records[i]] = y[2 * i] > y[2 * i + 1];
  return mirrored;
}

TEST(ImageInput, MirroringInTurnKeepsARecordsSideAndTurnsItOverWithEveryEpoch) {
  std::vector<std::uint32_t> records(4000);
  std::iota(records.begin(), records.end(), 0u);
  const std::vector<bool> first = mirrored_in(0, records, 1);
  EXPECT_NEAR(static_cast<double>(std::ranges::count(first, true)), 2000, 5 * std::sqrt(1000));
  std::vector<bool> turned = first;
  turned.flip();
  for (const std::uint64_t epoch : {1, 2, 3, 8}) {
    std::ranges::reverse(records);  // each epoch has another order
    EXPECT_EQ(mirrored_in(epoch, records, 1), epoch % 2 == 0 ? first : turned) << epoch;
  }
  EXPECT_NE(mirrored_in(0, records, 2), first);
}

TEST(ImageInput, MirroringInTurnLeavesTheOtherDrawsAsTheyAre) {
  ImageInputParams params = padded(normalized, 2, ImagePadding::reflect, 12);
  const ImageInputMap at_random(params);
  params.mirroring = ImageMirroring::alternating;
  params.record_count = 50000;
  const ImageInputMap in_turns(params);
  for (std::uint64_t position = 0; position < 100; ++position) {
    const ImageDraw a = at_random.draw(position, 1), b = in_turns.draw(position, 1);
    EXPECT_EQ(std::tie(a.top, a.left, a.cut_top, a.cut_left), std::tie(b.top, b.left, b.cut_top, b.cut_left));
  }
}

TEST(ImageInput, MirroringInTurnNeedsToKnowTheRecords) {
  const NoiseBatch samples(0, 2, 2);
  EXPECT_THROW(run(in_turn(0, 1), samples.batch()), Error);
  Batch batch = samples.batch();
  batch.records = {};
  EXPECT_THROW(run(in_turn(2, 1), batch), Error);
  EXPECT_NO_THROW(run(undistorted(in_turn(0, 1)), batch));
}

TEST(ImageInput, RefusesWhatItCannotDo) {
  const auto refused = [](const ImageInputParams& params) {
    Graph graph(1);
    EXPECT_THROW(image_input(graph, "input", params), Error);
  };
  refused(of_images(standardized, {3, 32, 32}));
  refused(of_images(standardized, {32, 3}));
  refused({.crop_height = 33});
  refused({.crop_width = -1});
  refused(of_images(normalized, {32, 32, 5}));
  refused(padded(of_images(normalized, {32, 8, 3}), 8, ImagePadding::zero));
  refused(padded(of_images(normalized, {32, 8, 3}), 0, ImagePadding::zero, 9));
  refused({.values = PixelValues::normalized, .deviation = {0.0f}});
}

// Warped

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

/// The four numbers that are drawn for a sample, each mapped to the range from -1 to 1.
std::array<double, 4> drawn_parts(std::uint64_t seed, std::uint64_t at) {
  PhiloxDraws draws(seed, RandomPurpose::warping, at);
  std::array<double, 4> parts{};
  for (double& part : parts) part = 2.0 * uniform_float(draws.word()) - 1.0;
  return parts;
}

TEST_P(WarpedImages, EqualsTheDefinition) {
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

/// Warps an image with one white pixel. `at`: stream position that determines the warp.
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
    // The shift is the distance of the warped centre from the centre, after rotation and scale are undone.
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
