// The kernel of cifar_distort: one block per image. Its sums are integers, so their order does not matter.
#pragma once

#include "carillon/graph/step_inputs.h"
#include "kernels/cifar_distort/cifar_distort_draw.h"
#include "kernels/cifar_distort/cifar_distort_math.h"
#include "kernels/shared/block_kernel.h"
#include "src/core/bf16.h"

namespace carillon {

/// Extents of one channel of an image, in pixels.
struct ImagePlane {
  std::uint32_t height = 1, width = 1;
  CARILLON_HOST_DEVICE std::uint32_t pixels() const { return height * width; }
};

/// T: float or Bf16.
template <typename T>
struct CifarDistortKernel {
  static constexpr int threads = 256;
  static constexpr int draw_phase = 0, sum_phase = 1, part_phase = 2, total_phase = 3, map_phase = 4, output_phase = 5;
  static constexpr int phases = output_phase + 1;
  static constexpr int sums = 2 * max_image_channels;  ///< per channel, of values and of squares
  static constexpr int parts = 16;  ///< partial sums of each sum; one thread computes each, then one thread adds them
  static_assert(sums * parts <= threads);

  struct Shared {
    CifarDistortDraw draw;
    std::uint32_t of_thread[sums][threads];  ///< sums over up to 2^24 pixels
    std::uint64_t of_part[sums][parts];
    ChannelSums of_channel[max_image_channels];
    ImageMap map;
  };

  StepTable table;
  bool distort = true;
  std::uint64_t seed = 0;
  int channels = 3;
  ImagePlane source, crop;
  T* output = nullptr;                ///< [batch, crop.height, crop.width, output_channels]
  std::uint32_t output_channels = 3;  ///< channels beyond `channels` are 0
  std::int64_t batch = 0;

  int blocks() const { return static_cast<int>(batch); }

  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared& shared, int block, int thread) const {
    const auto sample = static_cast<std::size_t>(block);
    if constexpr (phase == draw_phase) {
      if (thread == 0) shared.draw = draw_of(sample);
    } else if constexpr (phase == sum_phase) {
      sum_of_thread(table.image(sample), shared, thread);
    } else if constexpr (phase == part_phase) {
      if (thread < sums * parts) sum_of_part(shared, thread / parts, thread % parts);
    } else if constexpr (phase == total_phase) {
      if (thread < sums) total(shared, thread);
    } else if constexpr (phase == map_phase) {
      if (thread == 0) shared.map = image_map(shared.of_channel, channels, crop.pixels(), shared.draw);
    } else {
      write_output(sample, shared, thread);
    }
  }

  CARILLON_HOST_DEVICE CifarDistortDraw draw_of(std::size_t sample) const {
    const CropPlaces places{source.height - crop.height + 1, source.width - crop.width + 1};
    return distort ? draw_cifar_distortion(seed, table.header().first_position + sample, places) : centre_crop(places);
  }

  /// Index of pixel number `pixel` of the crop in a channel of the source.
  CARILLON_HOST_DEVICE std::uint32_t source_offset(const CifarDistortDraw& draw, std::uint32_t pixel) const {
    const std::uint32_t y = pixel / crop.width, x = pixel % crop.width;
    return (draw.offset_y + y) * source.width + draw.offset_x + (draw.flip ? crop.width - 1 - x : x);
  }

  CARILLON_HOST_DEVICE void sum_of_thread(const std::uint8_t* image, Shared& shared, int thread) const {
    std::uint32_t values[max_image_channels] = {}, squares[max_image_channels] = {};
    for (std::uint32_t pixel = static_cast<std::uint32_t>(thread); pixel < crop.pixels(); pixel += threads) {
      const std::uint8_t* place = image + source_offset(shared.draw, pixel);
      for (int c = 0; c < max_image_channels; ++c) {  // a constant count keeps the sums in registers
        if (c == channels) break;
        const std::uint32_t value = place[c * source.pixels()];
        values[c] += value;
        squares[c] += value * value;
      }
    }
    for (int c = 0; c < max_image_channels; ++c) {
      shared.of_thread[2 * c][thread] = values[c];
      shared.of_thread[2 * c + 1][thread] = squares[c];
    }
  }

  CARILLON_HOST_DEVICE static void sum_of_part(Shared& shared, int sum, int part) {
    std::uint64_t of_part = 0;
    for (int i = part; i < threads; i += parts) of_part += shared.of_thread[sum][i];
    shared.of_part[sum][part] = of_part;
  }

  CARILLON_HOST_DEVICE static void total(Shared& shared, int sum) {
    std::int64_t of_all = 0;
    for (const std::uint64_t of_part : shared.of_part[sum]) of_all += static_cast<std::int64_t>(of_part);
    ChannelSums& channel = shared.of_channel[sum / 2];
    (sum % 2 == 0 ? channel.values : channel.squares) = of_all;
  }

  CARILLON_HOST_DEVICE void write_output(std::size_t sample, const Shared& shared, int thread) const {
    const std::uint32_t count = crop.pixels() * output_channels;
    const std::uint8_t* image = table.image(sample);
    T* out = output + sample * count;
    for (std::uint32_t i = static_cast<std::uint32_t>(thread); i < count; i += threads) {
      const std::uint32_t pixel = i / output_channels, c = i % output_channels;
      if (c >= static_cast<std::uint32_t>(channels)) {
        out[i] = stored_as<T>(0.0f);
        continue;
      }
      const std::uint8_t value = image[c * source.pixels() + source_offset(shared.draw, pixel)];
      out[i] = stored_as<T>(map_value(shared.map, static_cast<int>(c), value));
    }
  }
};

}  // namespace carillon
