// Contains sets of parameters for the tests of image_input, and a function that runs the op on a batch.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/image_input/image_input.h"
#include "src/models/layers.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {

using Image = std::vector<std::uint8_t>;

// Some stream positions of the batch need more than 32 bits.
inline constexpr std::uint64_t first_position = 0xFFFFFFF0u;

inline std::vector<float> run(const ImageInputParams& params, const Batch& batch, int threads = 1,
                              Arithmetic arithmetic = Arithmetic::fp32) {
  CpuDevice device(threads);
  OpHarness harness(static_cast<std::int64_t>(batch.images.size()), device, arithmetic);
  harness.finish(image_input(harness.graph(), "input", params));
  harness.step().batch = batch;
  const auto y = harness.forward();
  return {y.begin(), y.end()};
}

/// Returns the output of the op for a batch of `images`. `first`: stream position of the first image.
inline std::vector<float> run(const ImageInputParams& params, const std::vector<Image>& images, std::uint64_t first,
                              int threads = 1) {
  std::vector<const std::uint8_t*> pointers;
  for (const Image& image : images) pointers.push_back(image.data());
  return run(params, {.images = pointers, .first_position = first}, threads);
}

inline const ImageInputParams normalized{.values = PixelValues::normalized,
                                         .mean = {0.4914f, 0.4822f, 0.4465f},
                                         .deviation = {0.247f, 0.2435f, 0.2616f, 1.0f},
                                         .mirroring = ImageMirroring::random};
inline const ImageInputParams& standardized = tutorial_input;

inline ImageInputParams with_seed(ImageInputParams params, std::uint64_t seed) {
  params.seed = seed;
  return params;
}

inline ImageInputParams undistorted(ImageInputParams params) {
  params.distort = false;
  return params;
}

inline ImageInputParams of_images(ImageInputParams params, const Shape& sample) {
  params.sample = sample;
  return params;
}

inline ImageInputParams with_crop(ImageInputParams params, std::int64_t height, std::int64_t width) {
  params.crop_height = height;
  params.crop_width = width;
  return params;
}

inline ImageInputParams cropped(const Shape& sample, std::int64_t height, std::int64_t width, std::uint64_t seed) {
  return with_crop(with_seed(of_images(standardized, sample), seed), height, width);
}

inline ImageInputParams mirrored(ImageInputParams params) {
  params.mirroring = ImageMirroring::random;
  return params;
}

inline ImageInputParams padded(ImageInputParams params, std::int64_t padding, ImagePadding mode,
                               std::int64_t cutout = 0) {
  params.padding = padding;
  params.padding_mode = mode;
  params.cutout = cutout;
  params.seed = 7;
  return params;
}

inline ImageInputParams warped(ImageInputParams params, const WarpParams& warp) {
  params.warp = warp;
  return params;
}

inline const WarpParams combined_warp{.rotation = 15.0, .zoom = 0.2, .shift = 0.1, .seed = 4};

inline ImageInputParams alternating(ImageInputParams params, std::uint64_t record_count) {
  params.mirroring = ImageMirroring::alternating;
  params.record_count = record_count;
  return params;
}

}  // namespace carillon::testing
