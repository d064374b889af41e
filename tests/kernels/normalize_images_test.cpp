#include "kernels/normalize_images/normalize_images.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "carillon/core/error.h"
#include "kernels/normalize_images/normalize_images_kernels.h"
#include "tests/support/emulate.h"
#include "tests/support/noise_batch.h"
#include "tests/support/op_harness.h"
#include "tests/support/padded_channels.h"
#include "tests/support/step_ring.h"

namespace carillon::testing {
namespace {

constexpr std::uint64_t first_position = 0xFFFFFFF0u;  // positions cross 32 bits

std::vector<float> run(const NormalizeImagesParams& params, const Batch& batch, int threads = 1) {
  OpHarness harness(static_cast<std::int64_t>(batch.images.size()), threads);
  harness.finish(normalize_images(harness.graph(), "input", params));
  harness.step().batch = batch;
  const auto y = harness.forward();
  return {y.begin(), y.end()};
}

/// One channel of an image, padded on all sides: rows of pixels.
using Plane = std::vector<std::vector<double>>;

Plane padded_plane(const std::uint8_t* pixels, std::int64_t height, std::int64_t width, std::int64_t padding,
                   ImagePadding mode) {
  Plane plane;
  for (std::int64_t y = 0; y < height; ++y) plane.emplace_back(pixels + y * width, pixels + (y + 1) * width);
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

/// The documented steps one after the other, in double.
std::vector<double> by_the_book(const NormalizeImagesParams& params, const std::uint8_t* image, std::uint64_t position,
                                std::uint32_t record) {
  const std::int64_t channels = params.source[0], height = params.source[1], width = params.source[2];
  const std::int64_t padding = params.distort ? params.padding : 0;
  const ImagePlacement placed = NormalizeImagesMap(params).placement(position, record);
  std::vector<double> values(static_cast<std::size_t>(params.source.element_count()));
  for (std::int64_t c = 0; c < channels; ++c) {
    const Plane plane = padded_plane(image + c * height * width, height, width, padding, params.padding_mode);
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

const NormalizeImagesParams cifar{.mean = {0.4914f, 0.4822f, 0.4465f}, .deviation = {0.247f, 0.2435f, 0.2616f, 1.0f}};

NormalizeImagesParams with(NormalizeImagesParams params, std::int64_t padding, ImagePadding mode,
                           std::int64_t cutout = 0) {
  params.padding = padding;
  params.padding_mode = mode;
  params.cutout = cutout;
  params.seed = 7;
  return params;
}

class NormalizeImages : public ::testing::TestWithParam<NormalizeImagesParams> {
 protected:
  static constexpr std::size_t count = 41;
  std::size_t image_bytes_ = static_cast<std::size_t>(GetParam().source.element_count());
};

TEST_P(NormalizeImages, EqualsTheDocumentedStepsInTheirOrder) {
  const NoiseBatch samples(0, count, image_bytes_);
  Batch batch = samples.batch();
  batch.first_position = first_position;
  const std::vector<float> y = run(GetParam(), batch, 2);
  for (std::size_t b = 0; b < count; ++b) {
    const std::vector<double> expected = by_the_book(GetParam(), batch.images[b], first_position + b, batch.records[b]);
    for (std::size_t i = 0; i < image_bytes_; ++i) {
      ASSERT_NEAR(y[b * image_bytes_ + i], expected[i], 1e-6) << b << ", " << i;
    }
  }
}

TEST_P(NormalizeImages, AGpusKernelEqualsTheCpuToTheBit) {
  const auto width = static_cast<std::uint32_t>(image_bytes_);
  StepRing ring(count, 2, width, random_bytes(std::size_t{23} * image_bytes_, 11), std::vector<std::int32_t>(23));
  const std::vector<std::uint32_t> rows = scattered_rows(count, 23);
  ring.step_counter = 5;
  std::vector<std::uint32_t> records;
  for (std::uint32_t b = 0; b < count; ++b) records.push_back(49999 - 17 * b);
  ring.put(5, {.first_position = first_position}, rows, records);
  std::vector<const std::uint8_t*> pointers;
  for (const std::uint32_t row : rows) pointers.push_back(ring.image(row));
  const std::vector<float> expected = run(GetParam(), {pointers, {}, records, first_position});
  const auto channels = static_cast<std::int32_t>(GetParam().source[0]);
  for (const ThreadOrder order : {ThreadOrder::ascending, ThreadOrder::descending}) {
    for (const std::int32_t output_channels : {channels, 8}) {
      std::vector<float> y(expected.size() / channels * output_channels, 7.0f);
      emulate(NormalizeImagesKernel<float>{.table = ring.table(),
                                           .map = NormalizeImagesMap(GetParam()),
                                           .output = y.data(),
                                           .output_channels = output_channels,
                                           .batch = count},
              order);
      EXPECT_EQ(y, padded_channels(expected, channels, output_channels));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Forms, NormalizeImages,
    ::testing::Values(cifar, with(cifar, 4, ImagePadding::zero), with(cifar, 2, ImagePadding::reflect, 12),
                      with({.source = {1, 5, 9}, .mirroring = ImageMirroring::none}, 4, ImagePadding::reflect, 5),
                      with({.mirroring = ImageMirroring::alternating, .record_count = 50000}, 2, ImagePadding::reflect,
                           3),
                      with({.source = {4, 7, 6}}, 3, ImagePadding::zero, 1),
                      NormalizeImagesParams{.padding = 3, .cutout = 8, .distort = false}));

TEST(NormalizeImages, DrawsEveryPlaceAndMirrorsHalf) {
  const NormalizeImagesMap map(with(cifar, 2, ImagePadding::reflect, 12));
  std::map<std::pair<std::int32_t, std::int32_t>, int> places;
  std::set<std::int32_t> cut_rows;
  int mirrored = 0;
  constexpr int samples = 10000;
  for (std::uint64_t position = 0; position < samples; ++position) {
    const ImagePlacement placed = map.placement(position, 0);
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

NormalizeImagesParams in_turn(std::uint64_t record_count, std::uint64_t seed) {
  return {.source = {1, 1, 2},
          .padding = 0,
          .mirroring = ImageMirroring::alternating,
          .record_count = record_count,
          .seed = seed};
}

/// Which of the records, in that order of epoch `epoch`, come out mirrored.
std::vector<bool> mirrored_in(std::uint64_t epoch, const std::vector<std::uint32_t>& records, std::uint64_t seed) {
  const std::uint8_t image[2] = {0, 255};
  const std::vector<const std::uint8_t*> images(records.size(), image);
  const std::vector<float> y = run(in_turn(records.size(), seed), {images, {}, records, epoch * records.size()}, 2);
  std::vector<bool> mirrored(records.size());
  for (std::size_t i = 0; i < records.size(); ++i) mirrored[records[i]] = y[2 * i] > y[2 * i + 1];
  return mirrored;
}

TEST(NormalizeImages, MirroringInTurnKeepsARecordsSideAndTurnsItOverWithEveryEpoch) {
  std::vector<std::uint32_t> records(4000);
  std::iota(records.begin(), records.end(), 0u);
  const std::vector<bool> first = mirrored_in(0, records, 1);
  EXPECT_NEAR(static_cast<double>(std::ranges::count(first, true)), 2000, 5 * std::sqrt(1000));
  std::vector<bool> turned = first;
  turned.flip();
  for (const std::uint64_t epoch : {1, 2, 3, 8}) {
    std::ranges::reverse(records);  // another order in each epoch
    EXPECT_EQ(mirrored_in(epoch, records, 1), epoch % 2 == 0 ? first : turned) << epoch;
  }
  EXPECT_NE(mirrored_in(0, records, 2), first);
}

TEST(NormalizeImages, MirroringInTurnLeavesTheOtherDrawsAsTheyAre) {
  NormalizeImagesParams params = with(cifar, 2, ImagePadding::reflect, 12);
  const NormalizeImagesMap at_random(params);
  params.mirroring = ImageMirroring::alternating;
  params.record_count = 50000;
  const NormalizeImagesMap in_turns(params);
  for (std::uint64_t position = 0; position < 100; ++position) {
    const ImagePlacement a = at_random.placement(position, 1), b = in_turns.placement(position, 1);
    EXPECT_EQ(std::tie(a.top, a.left, a.cut_top, a.cut_left), std::tie(b.top, b.left, b.cut_top, b.cut_left));
  }
}

TEST(NormalizeImages, MirroringInTurnNeedsToKnowTheRecords) {
  const NoiseBatch samples(0, 2, 2);
  EXPECT_THROW(run(in_turn(0, 1), samples.batch()), Error);
  Batch batch = samples.batch();
  batch.records = {};
  EXPECT_THROW(run(in_turn(2, 1), batch), Error);
  NormalizeImagesParams undistorted = in_turn(0, 1);
  undistorted.distort = false;
  EXPECT_NO_THROW(run(undistorted, batch));
}

TEST(NormalizeImages, RefusesWhatItCannotDo) {
  Graph graph(1);
  EXPECT_THROW(normalize_images(graph, "a", {.source = {5, 32, 32}}), Error);
  EXPECT_THROW(normalize_images(graph, "b", {.source = {3, 32, 8}, .padding = 8}), Error);
  EXPECT_THROW(normalize_images(graph, "c", {.source = {3, 32, 8}, .cutout = 9}), Error);
  EXPECT_THROW(normalize_images(graph, "d", {.deviation = {0.0f}}), Error);
}

}  // namespace
}  // namespace carillon::testing
