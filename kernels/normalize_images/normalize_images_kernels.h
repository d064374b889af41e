// The random draws of normalize_images for a sample, and the map from input to output pixels, on CPU and GPU. Then the
// kernel on a GPU: one block per image.
//
// Draws are a function of seed, stream position and record, equal at any number of ranks and after a resume.
#pragma once

#include <cmath>

#include "carillon/core/philox.h"
#include "carillon/graph/step_inputs.h"
#include "kernels/normalize_images/normalize_images.h"
#include "kernels/shared/block_kernel.h"
#include "src/core/bf16.h"

namespace carillon {

/// The draws for one image: the position of the crop, mirroring, and the square.
struct ImagePlacement {
  std::int32_t top = 0, left = 0;  ///< position of the crop in the image; negative: in the padding
  bool mirrored = false;
  std::int32_t cut_top = 0, cut_left = 0;  ///< position of the square in the output
};

struct NormalizeImagesMap {
  std::int32_t channels = 3, height = 32, width = 32, padding = 0, cutout = 0;
  bool reflects = false, distorts = true;
  ImageMirroring mirroring = ImageMirroring::random;
  std::uint64_t record_count = 1, seed = 0;
  float factor[max_normalized_channels] = {}, offset[max_normalized_channels] = {};  ///< y = v * factor + offset

  explicit NormalizeImagesMap(const NormalizeImagesParams& params)
      : channels(static_cast<std::int32_t>(params.source[0])),
        height(static_cast<std::int32_t>(params.source[1])),
        width(static_cast<std::int32_t>(params.source[2])),
        padding(static_cast<std::int32_t>(params.padding)),
        cutout(params.distort ? static_cast<std::int32_t>(params.cutout) : 0),
        reflects(params.padding_mode == ImagePadding::reflect),
        distorts(params.distort),
        mirroring(params.mirroring),
        record_count(params.record_count),
        seed(params.seed) {
    for (std::size_t c = 0; c < max_normalized_channels; ++c) {
      factor[c] = static_cast<float>(1.0 / (255.0 * params.deviation[c]));
      offset[c] = static_cast<float>(-static_cast<double>(params.mean[c]) / params.deviation[c]);
    }
  }

  /// Whether the draws depend on the record.
  CARILLON_HOST_DEVICE bool mirrors_by_record() const { return distorts && mirroring == ImageMirroring::alternating; }

  CARILLON_HOST_DEVICE ImagePlacement placement(std::uint64_t position, std::uint32_t record) const {
    ImagePlacement placed;
    if (!distorts) return placed;
    PhiloxDraws draws(seed, RandomPurpose::augmentation, position);
    const auto below = [&](std::int32_t bound) {
      return static_cast<std::int32_t>(draws.below(static_cast<std::uint32_t>(bound)));
    };
    placed.top = below(2 * padding + 1) - padding;
    placed.left = below(2 * padding + 1) - padding;
    placed.mirrored = draws.word() >> 31 != 0 && mirroring == ImageMirroring::random;
    if (mirrors_by_record()) placed.mirrored = mirrored_in_turn(position / record_count, record);
    if (cutout == 0) return placed;
    placed.cut_top = below(height - cutout + 1);
    placed.cut_left = below(width - cutout + 1);
    return placed;
  }

  CARILLON_HOST_DEVICE bool mirrored_in_turn(std::uint64_t epoch, std::uint32_t record) const {
    const bool at_first = PhiloxDraws(seed, RandomPurpose::mirroring, record).word() >> 31 != 0;
    return at_first != (epoch % 2 != 0);
  }

  /// The row or column of the image at position `at`, for an image of `extent` rows or columns; -1: a black pixel.
  CARILLON_HOST_DEVICE std::int32_t within(std::int32_t at, std::int32_t extent) const {
    if (at >= 0 && at < extent) return at;
    if (!reflects) return -1;
    return at < 0 ? -at : 2 * (extent - 1) - at;
  }
  CARILLON_HOST_DEVICE std::int32_t row_of(const ImagePlacement& placed, std::int32_t y) const {
    return within(placed.top + y, height);
  }
  CARILLON_HOST_DEVICE std::int32_t column_of(const ImagePlacement& placed, std::int32_t x) const {
    return within(placed.left + (placed.mirrored ? width - 1 - x : x), width);
  }
  CARILLON_HOST_DEVICE bool is_cut(const ImagePlacement& placed, std::int32_t y, std::int32_t x) const {
    return y >= placed.cut_top && y < placed.cut_top + cutout && x >= placed.cut_left && x < placed.cut_left + cutout;
  }
  /// A fused multiply-add, so that every processor rounds alike.
  CARILLON_HOST_DEVICE float value(std::int32_t channel, std::uint8_t pixel) const {
    return std::fma(static_cast<float>(pixel), factor[channel], offset[channel]);
  }
};

/// T: float or Bf16.
template <typename T>
struct NormalizeImagesKernel {
  static constexpr int threads = 256;
  static constexpr int phases = 2;

  struct Shared {
    ImagePlacement placed;
  };

  StepTable table;
  NormalizeImagesMap map;
  T* output = nullptr;               ///< [batch, height, width, output_channels]
  std::int32_t output_channels = 3;  ///< channels beyond the map's are 0
  std::int64_t batch = 0;

  int blocks() const { return static_cast<int>(batch); }

  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared& shared, int block, int thread) const {
    const auto sample = static_cast<std::size_t>(block);
    if constexpr (phase == 0) {
      if (thread == 0) shared.placed = map.placement(table.header().first_position + sample, table.record(sample));
    } else {
      write_image(sample, shared.placed, thread);
    }
  }

  CARILLON_HOST_DEVICE void write_image(std::size_t sample, const ImagePlacement& placed, int thread) const {
    const std::int32_t count = output_channels * map.height * map.width;
    const std::uint8_t* const image = table.image(sample);
    T* const out = output + sample * static_cast<std::size_t>(count);
    for (std::int32_t i = thread; i < count; i += threads) {
      const std::int32_t c = i % output_channels, place = i / output_channels;
      const std::int32_t x = place % map.width, y = place / map.width;
      if (c >= map.channels) {
        out[i] = stored_as<T>(0.0f);
        continue;
      }
      const std::int32_t row = map.row_of(placed, y), column = map.column_of(placed, x);
      const bool is_black = row < 0 || column < 0;
      const std::uint8_t pixel = is_black ? std::uint8_t{0} : image[(c * map.height + row) * map.width + column];
      out[i] = stored_as<T>(map.is_cut(placed, y, x) ? 0.0f : map.value(c, pixel));
    }
  }
};

}  // namespace carillon
