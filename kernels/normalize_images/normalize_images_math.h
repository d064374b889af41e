// The random draws of normalize_images for a sample, and the map from input to output pixels, on CPU and GPU. Draws are
// a function of seed, stream position and record, equal at any number of ranks and after a resume.
#pragma once

#include <cmath>

#include "carillon/core/philox.h"
#include "kernels/normalize_images/normalize_images.h"

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

}  // namespace carillon
