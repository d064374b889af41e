// NaiveDepthwiseConv2d: computes the formulas of depthwise_conv2d with loops in double precision.
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "kernels/depthwise_conv2d/depthwise_conv2d.h"

namespace carillon::testing {

struct DepthwiseCase {
  Shape shape;
  DepthwiseConv2dParams params;

  DepthwiseGeometry geometry() const {
    const ImageWindows windows = params.windows(shape);
    return {windows.vertical, windows.horizontal};
  }
  std::string text() const {
    return shape.text() + " kernel " + std::to_string(params.kernel) + " stride " + std::to_string(params.stride) +
           " padding " + (params.padding.is_same() ? "same" : std::to_string(params.padding.extent())) + " widths " +
           std::to_string(params.kernel_width) + " " + std::to_string(params.stride_width) + " pads " +
           ::testing::PrintToString(params.pads);
  }
};

inline void PrintTo(const DepthwiseCase& c, std::ostream* out) { *out << c.text(); }

struct NaiveDepthwiseConv2d {
  std::vector<double> y, dx, dweights, dbiases;

  /// `biases`: empty if the convolution has none.
  NaiveDepthwiseConv2d(const DepthwiseCase& c, std::span<const float> x, std::span<const float> weights,
                       std::span<const float> biases, std::span<const float> dy)
      : y(dy.size()), dx(x.size()), dweights(weights.size()), dbiases(static_cast<std::size_t>(c.shape[3])) {
    for (std::size_t i = 0; i < y.size(); ++i) {
      y[i] = biases.empty() ? 0.0 : static_cast<double>(biases[i % biases.size()]);
      dbiases[i % dbiases.size()] += dy[i];
    }
    for_each_product(c, [&](std::int64_t yi, std::int64_t xi, std::int64_t wi) {
      y[yi] += static_cast<double>(x[xi]) * weights[wi];
      dx[xi] += static_cast<double>(dy[yi]) * weights[wi];
      dweights[wi] += static_cast<double>(dy[yi]) * x[xi];
    });
  }

  static std::vector<float> floats(const std::vector<double>& values) { return {values.begin(), values.end()}; }

 private:
  /// Calls visit(index in y, index in x, index in the weights) for every product.
  template <typename Visit>
  static void for_each_product(const DepthwiseCase& c, const Visit& visit) {
    const DepthwiseGeometry geometry = c.geometry();
    const SlidingWindow &vertical = geometry.vertical, &horizontal = geometry.horizontal;
    const std::int64_t channels = c.shape[3], area = vertical.window * horizontal.window;
    const std::int64_t pixels = c.shape[0] * vertical.output * horizontal.output;
    for (std::int64_t at = 0; at < pixels * area; ++at) {
      const std::int64_t pixel = at / area, i = at % area / horizontal.window, j = at % horizontal.window;
      const std::int64_t q = pixel % horizontal.output, line = pixel / horizontal.output;
      const std::int64_t h = line % vertical.output * vertical.stride + i - vertical.before;
      const std::int64_t w = q * horizontal.stride + j - horizontal.before;
      if (h < 0 || w < 0 || h >= vertical.input || w >= horizontal.input) continue;
      const std::int64_t x = (line / vertical.output * vertical.input + h) * horizontal.input + w;
      for (std::int64_t k = 0; k < channels; ++k) {
        visit(pixel * channels + k, x * channels + k, (i * horizontal.window + j) * channels + k);
      }
    }
  }
};

}  // namespace carillon::testing
