// The random draws of cifar_distort for a sample: a function of seed and stream position, equal on CPU and GPU, at any
// number of ranks and after a resume.
#pragma once

#include <cmath>

#include "carillon/core/philox.h"

namespace carillon {

struct CifarDistortDraw {
  std::uint32_t offset_y = 0, offset_x = 0;  ///< first row and column of the crop in the source
  bool flip = false;                         ///< left-right
  float brightness = 0.0f;                   ///< added
  float contrast = 1.0f;                     ///< factor for the distance from the channel's mean
};

/// Number of positions of a crop in each direction: source - crop + 1.
struct CropPlaces {
  std::uint32_t rows = 1, columns = 1;
};

/// Uniform in [low, high). A fused multiply-add, so that every processor rounds alike.
CARILLON_HOST_DEVICE inline float uniform_between(std::uint32_t word, float low, float high) {
  return std::fma(uniform_float(word), high - low, low);
}

/// The distortion of the sample at stream position `position`.
CARILLON_HOST_DEVICE inline CifarDistortDraw draw_cifar_distortion(std::uint64_t seed, std::uint64_t position,
                                                                   CropPlaces places) {
  PhiloxDraws draws(seed, RandomPurpose::augmentation, position);
  CifarDistortDraw draw;
  draw.offset_y = draws.below(places.rows);
  draw.offset_x = draws.below(places.columns);
  draw.flip = draws.word() >> 31 != 0;
  draw.brightness = uniform_between(draws.word(), -63.0f, 63.0f);
  draw.contrast = uniform_between(draws.word(), 0.2f, 1.8f);
  return draw;
}

/// The crop in evaluation: the centre, undistorted.
CARILLON_HOST_DEVICE inline CifarDistortDraw centre_crop(CropPlaces places) {
  CifarDistortDraw draw;
  draw.offset_y = (places.rows - 1) / 2;
  draw.offset_x = (places.columns - 1) / 2;
  return draw;
}

}  // namespace carillon
