// The arithmetic of cifar_distort on CPU and GPU: the random draws of a sample, and the map from bytes to output. Then
// the kernel on a GPU.
//
// The draws are a function of seed and stream position, equal at any number of ranks and after a resume.
//
// Brightness, contrast and standardisation are one affine map per channel. m_c and V_c: mean and variance of channel c
// of the crop; b: brightness; f: contrast.
//   after contrast   v' = (v - m_c) f + m_c + b
//   mean             m = average over c of (m_c + b)
//   variance         V = average over c of (f^2 V_c + (m_c + b - m)^2)
//   y = (v' - m) / max(sqrt(V), 1 / sqrt(n)) = (v - k_c) factor + offset_c
// m_c and V_c are exact, from integer sums. k_c is the integer nearest to m_c, so v - k_c is exact, and small if the
// image is nearly constant and factor is large.
#pragma once

#include <cmath>
#include <cstdint>

#include "carillon/core/host_device.h"
#include "carillon/core/philox.h"
#include "carillon/graph/step_inputs.h"
#include "kernels/shared/block_kernel.h"
#include "src/core/bf16.h"

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

inline constexpr int max_image_channels = 4;

/// Sums over one channel of a crop.
struct ChannelSums {
  std::int64_t values = 0, squares = 0;
};

/// y = (v - centre[c]) * factor + offset[c].
struct ImageMap {
  float factor = 1.0f;
  std::int32_t centre[max_image_channels] = {};
  float offset[max_image_channels] = {};
};

/// A fused multiply-add, so that every processor rounds alike.
CARILLON_HOST_DEVICE inline float map_value(const ImageMap& map, int channel, std::uint8_t v) {
  return std::fma(static_cast<float>(v - map.centre[channel]), map.factor, map.offset[channel]);
}

/// The map of a crop with `channels` channels of `pixels` values each. `sums`: by channel.
CARILLON_HOST_DEVICE inline ImageMap image_map(const ChannelSums* sums, int channels, std::int64_t pixels,
                                               const CifarDistortDraw& draw) {
  const double count = static_cast<double>(pixels), contrast = draw.contrast;
  double channel_mean[max_image_channels], mean = 0.0;
  for (int c = 0; c < channels; ++c) {
    channel_mean[c] = static_cast<double>(sums[c].values) / count + draw.brightness;
    mean += channel_mean[c] / channels;
  }
  double variance = 0.0;
  for (int c = 0; c < channels; ++c) {
    const std::int64_t scaled = pixels * sums[c].squares - sums[c].values * sums[c].values;  // pixels^2 V_c
    const double apart = channel_mean[c] - mean;
    variance += (contrast * contrast * static_cast<double>(scaled) / (count * count) + apart * apart) / channels;
  }
  const double least = 1.0 / std::sqrt(count * channels), deviation = std::sqrt(variance);
  const double inverse = 1.0 / (deviation > least ? deviation : least);

  ImageMap map;
  map.factor = static_cast<float>(contrast * inverse);
  for (int c = 0; c < channels; ++c) {
    const std::int64_t centre = (2 * sums[c].values + pixels) / (2 * pixels);
    const double to_centre = static_cast<double>(centre * pixels - sums[c].values) / count;  // k_c - m_c
    map.centre[c] = static_cast<std::int32_t>(centre);
    map.offset[c] = static_cast<float>((to_centre * contrast + channel_mean[c] - mean) * inverse);
  }
  return map;
}

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
