// The random draws of image_input for a sample, and the maps from input to output pixels, on CPU and GPU. The file also
// has the kernels of image_input and mix_images for a GPU. One block processes an image, and one thread of the block
// draws the random numbers.
//
// Brightness, contrast and standardisation are one affine map per channel. m_c and V_c: mean and variance of channel c
// of the crop; b: brightness; f: contrast.
//   after contrast   v' = (v - m_c) f + m_c + b
//   mean             m = average over c of (m_c + b)
//   variance         V = average over c of (f^2 V_c + (m_c + b - m)^2)
//   y = (v' - m) / max(sqrt(V), 1 / sqrt(n)) = (v - k_c) factor + offset_c
// m_c and V_c are exact, because they are computed from integer sums. k_c is the integer nearest to m_c, so v - k_c is
// exact. If the image is nearly constant, factor is large, but v - k_c is small.
#pragma once

#include <cmath>
#include <numbers>

#include "carillon/core/philox.h"
#include "carillon/graph/step_inputs.h"
#include "kernels/image_input/image_input.h"
#include "kernels/shared/block_kernel.h"
#include "src/core/bf16.h"

namespace carillon {

/// The random draws for one image, without the draws for the warp.
struct ImageDraw {
  std::int32_t top = 0, left = 0;  ///< position of the crop in the image; negative: the crop begins in the padding
  bool mirrored = false;
  std::int32_t cut_top = 0, cut_left = 0;  ///< position of the square in the crop
  float brightness = 0.0f;                 ///< added to each value
  float contrast = 1.0f;                   ///< factor that multiplies the distance from the channel's mean
};

/// y = (v - centre[c]) * factor[c] + offset[c]. If an image has more channels than max_image_channels, all entries are
/// equal.
struct PixelMap {
  std::int32_t centre[max_image_channels] = {};
  float factor[max_image_channels] = {}, offset[max_image_channels] = {};

  /// Uses a fused multiply-add, so that every processor rounds in the same way.
  CARILLON_HOST_DEVICE float value(std::int32_t channel, std::uint8_t v) const {
    const auto c = static_cast<std::size_t>(channel) % max_image_channels;
    return std::fma(static_cast<float>(v - centre[c]), factor[c], offset[c]);
  }
};

/// For one channel of a crop: the sum of the values, and the sum of their squares.
struct ChannelSums {
  std::int64_t values = 0, squares = 0;
};

/// Computes the map that standardises a crop with `channels` channels of `pixels` values each. `sums`: one entry per
/// channel.
CARILLON_HOST_DEVICE inline PixelMap standardizing_map(const ChannelSums* sums, int channels, std::int64_t pixels,
                                                       const ImageDraw& draw) {
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

  PixelMap map;
  for (int c = 0; c < channels; ++c) {
    const std::int64_t centre = (2 * sums[c].values + pixels) / (2 * pixels);
    const double to_centre = static_cast<double>(centre * pixels - sums[c].values) / count;  // k_c - m_c
    map.centre[c] = static_cast<std::int32_t>(centre);
    map.factor[c] = static_cast<float>(contrast * inverse);
    map.offset[c] = static_cast<float>((to_centre * contrast + channel_mean[c] - mean) * inverse);
  }
  return map;
}

/// Maps pixel (row, column) of the output to a position in the image: base + row * by_row + column * by_column.
struct Warp {
  struct Place {
    float row = 0.0f, column = 0.0f;
  };
  Place base, by_row, by_column;

  /// Uses a fused multiply-add, so that every processor rounds in the same way.
  CARILLON_HOST_DEVICE Place at(std::int32_t row, std::int32_t column) const {
    const auto y = static_cast<float>(row), x = static_cast<float>(column);
    return {std::fma(x, by_column.row, std::fma(y, by_row.row, base.row)),
            std::fma(x, by_column.column, std::fma(y, by_row.column, base.column))};
  }
};

/// Draws uniformly from [low, high). Uses a fused multiply-add, so that every processor rounds in the same way.
CARILLON_HOST_DEVICE inline float uniform_between(std::uint32_t word, float low, float high) {
  return std::fma(uniform_float(word), high - low, low);
}

/// The values that are equal for all images of a batch.
struct ImageInputMap {
  std::int32_t height, width, channels;          ///< extents of the images in the records
  std::int32_t crop_height, crop_width, cutout;  ///< extents of the output; side of the square
  std::int32_t padding;
  bool reflects, distorts, normalizes, standardizes, warps;
  ImageMirroring mirroring;
  float brightness, contrast_low, contrast_high;
  std::uint64_t record_count, seed;
  WarpParams warp;
  PixelMap fixed = {};  ///< the map for scaled and normalized values

  explicit ImageInputMap(const ImageInputParams& params)
      : height(params.sample.rank() == 3 ? static_cast<std::int32_t>(params.sample[0]) : 1),
        width(static_cast<std::int32_t>(params.sample.element_count() / params.sample.extents().back()) / height),
        channels(static_cast<std::int32_t>(params.sample.extents().back())),
        crop_height(params.crop_height > 0 ? static_cast<std::int32_t>(params.crop_height) : height),
        crop_width(params.crop_width > 0 ? static_cast<std::int32_t>(params.crop_width) : width),
        cutout(params.distort ? static_cast<std::int32_t>(params.cutout) : 0),
        padding(static_cast<std::int32_t>(params.padding)),
        reflects(params.padding_mode == ImagePadding::reflect),
        distorts(params.distort),
        normalizes(params.values == PixelValues::normalized),
        standardizes(params.values == PixelValues::standardized),
        warps(params.warp.warps()),
        mirroring(params.mirroring),
        brightness(params.brightness),
        contrast_low(params.contrast[0]),
        contrast_high(params.contrast[1]),
        record_count(params.record_count),
        seed(params.seed),
        warp(params.warp) {
    for (std::size_t c = 0; c < max_image_channels; ++c) {
      const double deviation = params.deviation[c];
      fixed.factor[c] = normalizes ? static_cast<float>(1.0 / (255.0 * deviation)) : params.scale;
      fixed.offset[c] = normalizes ? static_cast<float>(-static_cast<double>(params.mean[c]) / deviation) : 0.0f;
    }
  }

  CARILLON_HOST_DEVICE std::int32_t pixels() const { return crop_height * crop_width; }
  /// True if the draws depend on the record.
  CARILLON_HOST_DEVICE bool mirrors_by_record() const { return distorts && mirroring == ImageMirroring::alternating; }

  CARILLON_HOST_DEVICE ImageDraw draw(std::uint64_t position, std::uint32_t record) const {
    ImageDraw drawn{.top = (height - crop_height) / 2, .left = (width - crop_width) / 2};
    if (!distorts) return drawn;
    PhiloxDraws draws(seed, RandomPurpose::augmentation, position);
    const auto below = [&](std::int32_t bound) {
      return static_cast<std::int32_t>(draws.below(static_cast<std::uint32_t>(bound)));
    };
    drawn.top = below(height + 2 * padding - crop_height + 1) - padding;
    drawn.left = below(width + 2 * padding - crop_width + 1) - padding;
    drawn.mirrored = draws.word() >> 31 != 0 && mirroring == ImageMirroring::random;
    if (mirrors_by_record()) drawn.mirrored = mirrored_in_turn(position / record_count, record);
    if (cutout > 0) {
      drawn.cut_top = below(crop_height - cutout + 1);
      drawn.cut_left = below(crop_width - cutout + 1);
    }
    if (standardizes) {
      drawn.brightness = uniform_between(draws.word(), -brightness, brightness);
      drawn.contrast = uniform_between(draws.word(), contrast_low, contrast_high);
    }
    return drawn;
  }

  /// Returns the row (column) of the image that row y (column x) of the crop shows. Returns -1 for black pixels.
  CARILLON_HOST_DEVICE std::int32_t row_of(const ImageDraw& drawn, std::int32_t y) const {
    return within(drawn.top + y, height);
  }
  CARILLON_HOST_DEVICE std::int32_t column_of(const ImageDraw& drawn, std::int32_t x) const {
    return within(drawn.left + (drawn.mirrored ? crop_width - 1 - x : x), width);
  }
  CARILLON_HOST_DEVICE bool is_cut(const ImageDraw& drawn, std::int32_t y, std::int32_t x) const {
    return y >= drawn.cut_top && y < drawn.cut_top + cutout && x >= drawn.cut_left && x < drawn.cut_left + cutout;
  }

  CARILLON_HOST_DEVICE Warp draw_warp(std::uint64_t position) const {
    PhiloxDraws draws(warp.seed, RandomPurpose::warping, position);
    const auto between = [&](double limit) {
      const double u = uniform_float(draws.word());
      return limit * (2.0 * u - 1.0);
    };
    const double angle = between(warp.rotation) * (std::numbers::pi / 180.0), factor = 1.0 + between(warp.zoom);
    const double down = between(warp.shift) * crop_height, right = between(warp.shift) * crop_width;
    const double cosine = std::cos(angle) / factor, sine = std::sin(angle) / factor;
    const double centre_row = 0.5 * (crop_height - 1), centre_column = 0.5 * (crop_width - 1);
    const double row = centre_row + down, column = centre_column + right;  // the new position of the image's centre
    const auto place = [](double of_row, double of_column) {
      return Warp::Place{static_cast<float>(of_row), static_cast<float>(of_column)};
    };
    return {.base = place(centre_row - cosine * row - sine * column, centre_column + sine * row - cosine * column),
            .by_row = place(cosine, -sine),
            .by_column = place(sine, cosine)};
  }

  /// Interpolates channels [first, last) of the crop at `place`, and calls write(c, value) for each channel. read(y, x,
  /// c) returns a value of the crop.
  template <typename Read, typename Write>
  CARILLON_HOST_DEVICE void interpolate(const Warp::Place& place, std::int32_t first, std::int32_t last,
                                        const Read& read, const Write& write) const {
    const float row = std::floor(place.row), column = std::floor(place.column);
    const float down = place.row - row, right = place.column - column;
    const std::int32_t top = clamped(row, crop_height), bottom = clamped(row + 1.0f, crop_height);
    const std::int32_t left = clamped(column, crop_width), end = clamped(column + 1.0f, crop_width);
    for (std::int32_t c = first; c < last; ++c) {
      const float above = between(read(top, left, c), read(top, end, c), right);
      write(c, between(above, between(read(bottom, left, c), read(bottom, end, c), right), down));
    }
  }

 private:
  CARILLON_HOST_DEVICE bool mirrored_in_turn(std::uint64_t epoch, std::uint32_t record) const {
    const bool at_first = PhiloxDraws(seed, RandomPurpose::mirroring, record).word() >> 31 != 0;
    return at_first != (epoch % 2 != 0);
  }
  CARILLON_HOST_DEVICE std::int32_t within(std::int32_t at, std::int32_t extent) const {
    if (at >= 0 && at < extent) return at;
    if (!reflects) return -1;
    return at < 0 ? -at : 2 * (extent - 1) - at;
  }
  CARILLON_HOST_DEVICE static float between(float first, float second, float part) {
    return std::fma(part, second - first, first);
  }
  CARILLON_HOST_DEVICE static std::int32_t clamped(float at, std::int32_t extent) {
    const auto last = static_cast<float>(extent - 1);
    return static_cast<std::int32_t>(at < 0.0f ? 0.0f : at > last ? last : at);
  }
};

/// T: float or Bf16.
template <typename T>
struct ImageInputKernel {
  static constexpr int threads = 256;
  static constexpr int draw_phase = 0, sum_phase = 1, part_phase = 2, total_phase = 3, map_phase = 4, output_phase = 5;
  static constexpr int phases = output_phase + 1;
  static constexpr int sums = 2 * static_cast<int>(max_image_channels);  ///< per channel: the sum of the values and the
                                                                         ///< sum of their squares
  static constexpr int parts = 16;  ///< partial sums of each sum; one thread computes each partial sum
  static_assert(sums * parts <= threads);

  struct Shared {
    ImageDraw draw;
    Warp warp;
    std::uint32_t of_thread[sums][threads];  ///< 32 bits are enough for images of up to 2^24 pixels
    std::uint64_t of_part[sums][parts];
    ChannelSums of_channel[max_image_channels];
    PixelMap map;
  };

  StepTable table;
  ImageInputMap map;
  T* output = nullptr;               ///< [batch, crop_height, crop_width, output_channels]
  std::int32_t output_channels = 3;  ///< the output channels from map.channels on are 0
  std::int64_t batch = 0;

  int blocks() const { return static_cast<int>(batch); }

  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared& shared, int block, int thread) const {
    const auto sample = static_cast<std::size_t>(block);
    if constexpr (phase == draw_phase) {
      if (thread == 0) draw(shared, sample);
    } else if constexpr (phase == output_phase) {
      write_output(sample, shared, thread);
    } else if (map.standardizes) {
      if constexpr (phase == sum_phase) {
        sum_of_thread(table.image(sample), shared, thread);
      } else if constexpr (phase == part_phase) {
        if (thread < sums * parts) sum_of_part(shared, thread / parts, thread % parts);
      } else if constexpr (phase == total_phase) {
        if (thread < sums) total(shared, thread);
      } else if (thread == 0) {
        shared.map = standardizing_map(shared.of_channel, map.channels, map.pixels(), shared.draw);
      }
    }
  }

  CARILLON_HOST_DEVICE void draw(Shared& shared, std::size_t sample) const {
    const std::uint64_t position = table.header().first_position + sample;
    shared.draw = map.draw(position, map.mirrors_by_record() ? table.record(sample) : 0);
    shared.map = map.fixed;
    if (map.warps) shared.warp = map.draw_warp(position);
  }

  CARILLON_HOST_DEVICE void sum_of_thread(const std::uint8_t* image, Shared& shared, int thread) const {
    std::uint32_t values[max_image_channels] = {}, squares[max_image_channels] = {};
    for (std::int32_t pixel = thread; pixel < map.pixels(); pixel += threads) {
      const std::int32_t row = map.row_of(shared.draw, pixel / map.crop_width),
                         column = map.column_of(shared.draw, pixel % map.crop_width);
      if (row < 0 || column < 0) continue;
      const std::uint8_t* const place = image + (row * map.width + column) * map.channels;
      for (std::int32_t c = 0; c < static_cast<std::int32_t>(max_image_channels); ++c) {
        if (c == map.channels) break;  // the constant bound of the loop keeps the sums in registers
        const std::uint32_t value = place[c];
        values[c] += value;
        squares[c] += value * value;
      }
    }
    for (std::size_t c = 0; c < max_image_channels; ++c) {
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
    const std::int32_t count = map.pixels() * output_channels;
    const std::uint8_t* const image = table.image(sample);
    T* const out = output + sample * static_cast<std::size_t>(count);
    for (std::int32_t i = thread; i < count; i += threads) {
      const std::int32_t c = i % output_channels, pixel = i / output_channels;
      const std::int32_t x = pixel % map.crop_width, y = pixel / map.crop_width;
      if (c >= map.channels) {
        out[i] = stored_as<T>(0.0f);
      } else if (!map.warps) {
        out[i] = unwarped(image, shared, y, x, c);
      } else {
        const auto read = [&](std::int32_t row, std::int32_t column, std::int32_t channel) {
          return to_float(unwarped(image, shared, row, column, channel));
        };
        const auto write = [&](std::int32_t, float value) { out[i] = stored_as<T>(value); };
        map.interpolate(shared.warp.at(y, x), c, c + 1, read, write);
      }
    }
  }

  CARILLON_HOST_DEVICE T unwarped(const std::uint8_t* image, const Shared& shared, std::int32_t y, std::int32_t x,
                                  std::int32_t c) const {
    if (map.is_cut(shared.draw, y, x)) return stored_as<T>(0.0f);
    const std::int32_t row = map.row_of(shared.draw, y), column = map.column_of(shared.draw, x);
    const bool is_black = row < 0 || column < 0;
    const std::uint8_t pixel = is_black ? std::uint8_t{0} : image[(row * map.width + column) * map.channels + c];
    return stored_as<T>(shared.map.value(c, pixel));
  }
};

/// T: float or Bf16. Each block repeats the draw.
template <typename T>
struct MixImagesKernel {
  static constexpr int threads = 256;
  static constexpr int phases = 2;

  struct Shared {
    Mixing mixing;
  };

  MixingParams params;
  StepTable table;
  const T* x = nullptr;  ///< [batch, height, width, channels]
  T* y = nullptr;        ///< [batch, height, width, channels]
  std::int64_t batch = 0;
  std::int32_t channels = 1;

  int blocks() const { return static_cast<int>(batch); }

  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared& shared, int block, int thread) const {
    if constexpr (phase == 0) {
      if (thread == 0) shared.mixing = draw_mixing(params, table.header().first_position);
    } else {
      write_image(shared.mixing, block, thread);
    }
  }

  CARILLON_HOST_DEVICE void write_image(const Mixing& mixing, std::int64_t sample, int thread) const {
    const std::int32_t row = params.width * channels, count = params.height * row;
    const T *const own = x + sample * count, *const other = x + mixed_with(sample, batch) * count;
    T* const out = y + sample * count;
    for (std::int32_t i = thread; i < count; i += threads) {
      if (mixing.cuts) {
        out[i] = mixing.is_cut(i / row, i % row / channels) ? other[i] : own[i];
      } else {
        out[i] = stored_as<T>(mixing.blend(to_float(own[i]), to_float(other[i])));
      }
    }
  }
};

}  // namespace carillon
