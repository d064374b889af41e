// Computes image_input by its definition (kernels/image_input/image_input.h): one step after the other, in float64.
// Only the random draws (crop, mirroring, square, brightness and contrast) come from the op's own code.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/image_input/image_input_kernels.h"

namespace carillon::testing {

/// The rows of one channel of an image, padded on all sides.
using Plane = std::vector<std::vector<double>>;

inline Plane padded_plane(const std::uint8_t* image, const Shape& shape, std::int64_t channel, std::int64_t padding,
                          ImagePadding mode) {
  Plane plane(static_cast<std::size_t>(shape[0]));
  for (std::int64_t i = 0; i < shape[0] * shape[1]; ++i) {
    plane[static_cast<std::size_t>(i / shape[1])].push_back(image[i * shape[2] + channel]);
  }
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

/// Adds the brightness to all values [pixels, channels], then scales the contrast of each channel.
inline void distort_by_the_book(std::vector<double>& values, std::size_t channels, const ImageDraw& draw) {
  for (double& v : values) v += draw.brightness;
  for (std::size_t c = 0; c < channels; ++c) {
    double mean = 0.0;
    for (std::size_t i = c; i < values.size(); i += channels) mean += values[i];
    mean /= static_cast<double>(values.size() / channels);
    for (std::size_t i = c; i < values.size(); i += channels) values[i] = (values[i] - mean) * draw.contrast + mean;
  }
}

inline void standardise_by_the_book(std::vector<double>& values) {
  const double count = static_cast<double>(values.size());
  double mean = 0.0, variance = 0.0;
  for (const double v : values) mean += v / count;
  for (const double v : values) variance += (v - mean) * (v - mean) / count;
  const double divisor = std::max(std::sqrt(variance), 1.0 / std::sqrt(count));
  for (double& v : values) v = (v - mean) / divisor;
}

/// Draws the four numbers that determine a sample's warp, and maps each to the range from -1 to 1. `at`: stream
/// position.
inline std::array<double, 4> drawn_parts(std::uint64_t seed, std::uint64_t at) {
  PhiloxDraws draws(seed, RandomPurpose::warping, at);
  std::array<double, 4> parts{};
  for (double& part : parts) part = 2.0 * uniform_float(draws.word()) - 1.0;
  return parts;
}

/// Returns `values`, of shape [height, width, channels], after the warp of stream position `position`.
inline std::vector<double> warped_by_the_book(const std::vector<double>& values, const Shape& shape,
                                              const WarpParams& params, std::uint64_t position) {
  const std::int64_t height = shape[0], width = shape[1], channels = shape[2];
  const auto [turn, enlargement, down, right] = drawn_parts(params.seed, position);
  const double angle = turn * params.rotation * 3.141592653589793 / 180.0, factor = 1.0 + enlargement * params.zoom;
  const auto pixel = [&](std::int64_t row, std::int64_t column, std::int64_t c) {
    row = std::clamp<std::int64_t>(row, 0, height - 1);
    column = std::clamp<std::int64_t>(column, 0, width - 1);
    return values[static_cast<std::size_t>((row * width + column) * channels + c)];
  };
  const double middle = 0.5 * static_cast<double>(height - 1), centre = 0.5 * static_cast<double>(width - 1);
  const double moved_down = down * params.shift * static_cast<double>(height);
  const double moved_right = right * params.shift * static_cast<double>(width);
  std::vector<double> warped;
  for (std::int64_t i = 0; i < height * width; ++i) {
    const double v = static_cast<double>(i / width) - middle - moved_down;
    const double u = static_cast<double>(i % width) - centre - moved_right;
    const double row = middle + (std::cos(angle) * v + std::sin(angle) * u) / factor;
    const double column = centre + (-std::sin(angle) * v + std::cos(angle) * u) / factor;
    const auto top = static_cast<std::int64_t>(std::floor(row)), left = static_cast<std::int64_t>(std::floor(column));
    const double below = row - static_cast<double>(top), beside = column - static_cast<double>(left);
    for (std::int64_t c = 0; c < channels; ++c) {
      warped.push_back((1 - below) * ((1 - beside) * pixel(top, left, c) + beside * pixel(top, left + 1, c)) +
                       below * ((1 - beside) * pixel(top + 1, left, c) + beside * pixel(top + 1, left + 1, c)));
    }
  }
  return warped;
}

/// Returns the output of the op for one image. `position`: its stream position.
inline std::vector<double> image_by_the_book(const ImageInputParams& params, const std::uint8_t* image,
                                             std::uint64_t position, std::uint32_t record = 0) {
  const std::int64_t height = params.sample[0], width = params.sample[1], channels = params.sample[2];
  const std::int64_t rows = params.crop_height > 0 ? params.crop_height : height;
  const std::int64_t columns = params.crop_width > 0 ? params.crop_width : width;
  const std::int64_t padding = params.distort ? params.padding : 0;
  ImageDraw drawn{.top = static_cast<std::int32_t>(height - rows) / 2,
                  .left = static_cast<std::int32_t>(width - columns) / 2};
  if (params.distort) drawn = ImageInputMap(params).draw(position, record);
  std::vector<double> values(static_cast<std::size_t>(rows * columns * channels));
  for (std::int64_t c = 0; c < channels; ++c) {
    const Plane plane = padded_plane(image, params.sample, c, padding, params.padding_mode);
    const auto k = static_cast<std::size_t>(c);
    for (std::int64_t y = 0; y < rows; ++y) {
      for (std::int64_t x = 0; x < columns; ++x) {
        const std::int64_t column = padding + drawn.left + (drawn.mirrored ? columns - 1 - x : x);
        const double v =
            plane.at(static_cast<std::size_t>(padding + drawn.top + y)).at(static_cast<std::size_t>(column));
        double& value = values[static_cast<std::size_t>((y * columns + x) * channels + c)];
        value = v;
        if (params.values == PixelValues::scaled) value = v * params.scale;
        if (params.values == PixelValues::normalized) value = (v / 255.0 - params.mean[k]) / params.deviation[k];
      }
    }
  }
  if (params.values == PixelValues::standardized) {
    if (params.distort) distort_by_the_book(values, static_cast<std::size_t>(channels), drawn);
    standardise_by_the_book(values);
  }
  for (std::int64_t i = 0; params.distort && i < rows * columns; ++i) {
    const std::int64_t y = i / columns - drawn.cut_top, x = i % columns - drawn.cut_left;
    const bool is_cut = y >= 0 && y < params.cutout && x >= 0 && x < params.cutout;
    if (is_cut) std::fill_n(values.begin() + i * channels, channels, 0.0);
  }
  return params.warp.warps() ? warped_by_the_book(values, {rows, columns, channels}, params.warp, position) : values;
}

}  // namespace carillon::testing
