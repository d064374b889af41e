// Tests the CUDA kernel of image_input, and images that are scaled or normalised.
#include "kernels/image_input/image_input.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "carillon/core/error.h"
#include "kernels/image_input/image_input_kernels.h"
#include "tests/kernels/image_input_cases.h"
#include "tests/kernels/image_input_reference.h"
#include "tests/support/emulate.h"
#include "tests/support/noise_batch.h"
#include "tests/support/padded_channels.h"
#include "tests/support/step_ring.h"

namespace carillon::testing {
namespace {

// Tests of the CUDA kernel

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

  /// Returns images of noise. Every fourth image is nearly constant: its standard deviation is below the op's minimum.
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
  if (map_.warps) return;  // a warp rounds a value twice, so the result may differ
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

// Tests of normalised images

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
        image_by_the_book(GetParam(), batch.images[b], first_position + b, batch.records[b]);
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

/// Combinations of steps that no built-in network uses.
class CombinedImages : public ::testing::TestWithParam<ImageInputParams> {};

TEST_P(CombinedImages, EqualTheDocumentedStepsInTheirOrder) {
  const ImageInputParams& params = GetParam();
  const std::size_t count = 17;
  const NoiseBatch samples(0, count, static_cast<std::size_t>(params.sample.element_count()));
  Batch batch = samples.batch();
  batch.first_position = first_position;
  const std::vector<float> y = run(params, batch, 2);
  // The op computes the source positions of a warp in float32. An error of a position has a larger effect if
  // neighbouring pixels differ much, so the tolerance is larger.
  const double tolerance = params.warp.warps() ? 1e-3 : 3e-6;
  for (std::size_t b = 0; b < count; ++b) {
    const std::vector<double> expected =
        image_by_the_book(params, batch.images[b], first_position + b, batch.records[b]);
    ASSERT_EQ(y.size(), count * expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(y[b * expected.size() + i], expected[i], tolerance) << b << ", " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Forms, CombinedImages,
    ::testing::Values(with_crop(padded(normalized, 4, ImagePadding::zero, 5), 20, 24),
                      with_crop(padded(normalized, 3, ImagePadding::reflect), 9, 31),
                      padded(standardized, 3, ImagePadding::zero, 5),
                      padded(undistorted(standardized), 3, ImagePadding::reflect, 5),
                      with_crop(padded(mirrored({.scale = 1.0f / 255.0f}), 2, ImagePadding::reflect, 7), 30, 16),
                      warped(padded(normalized, 4, ImagePadding::zero, 8), combined_warp),
                      warped(padded(standardized, 3, ImagePadding::reflect, 5), combined_warp),
                      warped(undistorted(padded(normalized, 4, ImagePadding::zero, 8)), combined_warp)));

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

/// Returns whether the op mirrors the image of each record in epoch `epoch`. `records`: the records, in the order of
/// this epoch.
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
    std::ranges::reverse(records);  // each epoch has a different order of the records
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
  refused({.values = PixelValues::standardized, .brightness = -1.0f});
  refused({.values = PixelValues::standardized, .contrast = {1.0f, 0.5f}});
  refused({.warp = {.rotation = -1.0}});
  refused({.warp = {.shift = -0.1}});
}

}  // namespace
}  // namespace carillon::testing
