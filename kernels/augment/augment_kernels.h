// The kernel of augment: a block for each image. Its sums are of integers, so their order does not matter.
#pragma once

#include "carillon/core/bf16.h"
#include "carillon/graph/step_inputs.h"
#include "kernels/augment/augment_draw.h"
#include "kernels/augment/augment_math.h"
#include "kernels/shared/block_kernel.h"

namespace carillon {

/// Extents of one channel of an image, in pixels.
struct ImagePlane {
  std::uint32_t height = 1, width = 1;
  CARILLON_HOST_DEVICE std::uint32_t pixels() const { return height * width; }
};

/// Sums over a crop, by channel.
struct CropSums {
  ChannelSums channel[max_image_channels];

  CARILLON_HOST_DEVICE CropSums& operator+=(const CropSums& other) {
    for (int c = 0; c < max_image_channels; ++c) {
      channel[c].values += other.channel[c].values;
      channel[c].squares += other.channel[c].squares;
    }
    return *this;
  }
};

/// T: float or Bf16.
template <typename T>
struct AugmentKernel {
  static constexpr int threads = 256;
  static constexpr int fold_phase = 2;              // before: draw, sums
  static constexpr int map_phase = fold_phase + 8;  // 2^8 threads fold in 8 phases
  static constexpr int output_phase = map_phase + 1;
  static constexpr int phases = output_phase + 1;
  static_assert(1 << (map_phase - fold_phase) == threads);

  struct Shared {
    AugmentDraw draw;
    CropSums sums[threads];
    ImageMap map;
  };

  StepTable table;
  bool distort = true;
  std::uint64_t seed = 0;
  int channels = 3;
  ImagePlane source, crop;
  T* output = nullptr;  ///< [batch, crop.height, crop.width, channels]
  std::int64_t batch = 0;

  int blocks() const { return static_cast<int>(batch); }

  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared& shared, int block, int thread) const {
    const auto sample = static_cast<std::size_t>(block);
    if constexpr (phase == 0) {
      if (thread == 0) shared.draw = draw_of(sample);
    } else if constexpr (phase == 1) {
      shared.sums[thread] = sums_of_thread(table.image(sample), shared.draw, thread);
    } else if constexpr (phase < map_phase) {
      fold(shared.sums, thread, threads >> (phase - fold_phase + 1));
    } else if constexpr (phase == map_phase) {
      if (thread == 0) shared.map = image_map(shared.sums[0].channel, channels, crop.pixels(), shared.draw);
    } else {
      write_output(sample, shared, thread);
    }
  }

  CARILLON_HOST_DEVICE AugmentDraw draw_of(std::size_t sample) const {
    const CropPlaces places{source.height - crop.height + 1, source.width - crop.width + 1};
    return distort ? draw_augmentation(seed, table.header().first_position + sample, places) : centre_crop(places);
  }

  /// Where pixel number `pixel` of the crop lies in a channel of the source.
  CARILLON_HOST_DEVICE std::uint32_t source_offset(const AugmentDraw& draw, std::uint32_t pixel) const {
    const std::uint32_t y = pixel / crop.width, x = pixel % crop.width;
    return (draw.offset_y + y) * source.width + draw.offset_x + (draw.flip ? crop.width - 1 - x : x);
  }

  CARILLON_HOST_DEVICE CropSums sums_of_thread(const std::uint8_t* image, const AugmentDraw& draw, int thread) const {
    CropSums sums;
    for (std::uint32_t pixel = static_cast<std::uint32_t>(thread); pixel < crop.pixels(); pixel += threads) {
      const std::uint8_t* place = image + source_offset(draw, pixel);
      for (int c = 0; c < max_image_channels; ++c) {  // a constant count: the sums stay in registers
        if (c == channels) break;
        const std::int64_t value = place[c * source.pixels()];
        sums.channel[c].values += value;
        sums.channel[c].squares += value * value;
      }
    }
    return sums;
  }

  CARILLON_HOST_DEVICE void write_output(std::size_t sample, const Shared& shared, int thread) const {
    const std::uint32_t count = crop.pixels() * channels;
    const std::uint8_t* image = table.image(sample);
    T* out = output + sample * count;
    for (std::uint32_t i = static_cast<std::uint32_t>(thread); i < count; i += threads) {
      const std::uint32_t pixel = i / channels, c = i % channels;
      const std::uint8_t value = image[c * source.pixels() + source_offset(shared.draw, pixel)];
      out[i] = stored_as<T>(map_value(shared.map, static_cast<int>(c), value));
    }
  }
};

}  // namespace carillon
