// The random draws of warp_images for a sample, and the value of an output pixel, on CPU and GPU. Then the kernel on a
// GPU: one block per image; one of its threads draws.
//
// Draws are a function of seed and stream position, equal at any number of ranks and after a resume.
#pragma once

#include <cmath>
#include <numbers>

#include "carillon/core/philox.h"
#include "carillon/graph/step_inputs.h"
#include "kernels/shared/block_kernel.h"
#include "kernels/warp_images/warp_images.h"
#include "src/core/bf16.h"

namespace carillon {

/// The position in the image of pixel (row, column) of the output: base + row * by_row + column * by_column.
struct Warp {
  struct Place {
    float row = 0.0f, column = 0.0f;
  };
  Place base, by_row, by_column;

  /// A fused multiply-add, so that every processor rounds alike.
  CARILLON_HOST_DEVICE Place at(std::int32_t row, std::int32_t column) const {
    const auto y = static_cast<float>(row), x = static_cast<float>(column);
    return {std::fma(x, by_column.row, std::fma(y, by_row.row, base.row)),
            std::fma(x, by_column.column, std::fma(y, by_row.column, base.column))};
  }
};

struct WarpImagesMap {
  WarpParams params;
  std::int32_t height = 1, width = 1, channels = 1;

  CARILLON_HOST_DEVICE Warp draw(std::uint64_t position) const {
    PhiloxDraws draws(params.seed, RandomPurpose::warping, position);
    const auto between = [&](double limit) {
      const double u = uniform_float(draws.word());
      return limit * (2.0 * u - 1.0);
    };
    const double angle = between(params.rotation) * (std::numbers::pi / 180.0), factor = 1.0 + between(params.zoom);
    const double down = between(params.shift) * height, right = between(params.shift) * width;
    const double cosine = std::cos(angle) / factor, sine = std::sin(angle) / factor;
    const double centre_row = 0.5 * (height - 1), centre_column = 0.5 * (width - 1);
    const double row = centre_row + down, column = centre_column + right;  // the new position of the centre
    const auto place = [](double of_row, double of_column) {
      return Warp::Place{static_cast<float>(of_row), static_cast<float>(of_column)};
    };
    return {.base = place(centre_row - cosine * row - sine * column, centre_column + sine * row - cosine * column),
            .by_row = place(cosine, -sine),
            .by_column = place(sine, cosine)};
  }

  /// Calls write(c, value) for each channel of the image at `place`. image: [height, width, channels]; read(element)
  /// converts an element to float.
  template <typename Read, typename Write>
  CARILLON_HOST_DEVICE void interpolate(const Warp::Place& place, const Read& read, const Write& write) const {
    const float row = std::floor(place.row), column = std::floor(place.column);
    const float down = place.row - row, right = place.column - column;
    const std::int32_t top = within(row, height) * width, bottom = within(row + 1.0f, height) * width;
    const std::int32_t left = within(column, width), end = within(column + 1.0f, width);
    for (std::int32_t c = 0; c < channels; ++c) {
      const auto pixel = [&](std::int32_t line, std::int32_t x) { return read((line + x) * channels + c); };
      const float above = between(pixel(top, left), pixel(top, end), right);
      write(c, between(above, between(pixel(bottom, left), pixel(bottom, end), right), down));
    }
  }

 private:
  CARILLON_HOST_DEVICE static float between(float first, float second, float part) {
    return std::fma(part, second - first, first);
  }
  CARILLON_HOST_DEVICE static std::int32_t within(float at, std::int32_t extent) {
    const auto last = static_cast<float>(extent - 1);
    return static_cast<std::int32_t>(at < 0.0f ? 0.0f : at > last ? last : at);
  }
};

inline WarpImagesMap map_of(const WarpParams& params, const Shape& images) {
  return {.params = params,
          .height = static_cast<std::int32_t>(images[1]),
          .width = static_cast<std::int32_t>(images[2]),
          .channels = static_cast<std::int32_t>(images[3])};
}

/// T: float or Bf16.
template <typename T>
struct WarpImagesKernel {
  static constexpr int threads = 256;
  static constexpr int phases = 2;

  struct Shared {
    Warp warp;
  };

  WarpImagesMap map;
  StepTable table;
  const T* x = nullptr;  ///< [batch, height, width, channels]
  T* y = nullptr;        ///< the same
  std::int64_t batch = 0;

  int blocks() const { return static_cast<int>(batch); }

  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared& shared, int block, int thread) const {
    if constexpr (phase == 0) {
      if (thread == 0) shared.warp = map.draw(table.header().first_position + static_cast<std::uint64_t>(block));
    } else {
      write_image(shared.warp, block, thread);
    }
  }

  CARILLON_HOST_DEVICE void write_image(const Warp& warp, std::int64_t sample, int thread) const {
    const std::int32_t pixels = map.height * map.width;
    const T* const image = x + sample * pixels * map.channels;
    T* const out = y + sample * pixels * map.channels;
    for (std::int32_t i = thread; i < pixels; i += threads) {
      const auto read = [&](std::int32_t element) { return to_float(image[element]); };
      const auto write = [&](std::int32_t c, float value) { out[i * map.channels + c] = stored_as<T>(value); };
      map.interpolate(warp.at(i / map.width, i % map.width), read, write);
    }
  }
};

}  // namespace carillon
