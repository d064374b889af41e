// NaiveConv2d: computes the formulas of conv2d with loops in double precision.
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "kernels/conv2d/conv2d.h"

namespace carillon::testing {

struct Conv2dCase {
  std::int64_t batch, height, width, in;
  Conv2dParams params;
  int threads = 1;
  bool relu = false;
};

inline void PrintTo(const Conv2dCase& c, std::ostream* out) {
  *out << Shape{c.batch, c.height, c.width, c.in}.text() << " filters " << c.params.filters << " kernel "
       << c.params.kernel << " stride " << c.params.stride << " padding "
       << (c.params.padding.is_same() ? "same" : std::to_string(c.params.padding.extent())) << " pads "
       << ::testing::PrintToString(c.params.pads) << " groups " << c.params.groups << " dilation " << c.params.dilation
       << " widths " << c.params.kernel_width << " " << c.params.stride_width << " " << c.params.dilation_width
       << (c.relu ? " relu" : "") << (c.params.biases ? "" : " without biases") << " threads " << c.threads;
}

struct Conv2dGradients {
  std::vector<double> x, weights, biases;
};

/// Computes the formulas in kernels/conv2d/conv2d.h with loops in double precision.
struct NaiveConv2d {
  Shape x_shape, y_shape;
  SlidingWindow vertical, horizontal;
  std::int64_t groups;

  NaiveConv2d(const Conv2dCase& c)
      : x_shape{c.batch, c.height, c.width, c.in},
        vertical(c.params.windows(x_shape).vertical),
        horizontal(c.params.windows(x_shape).horizontal),
        groups(c.params.groups) {
    y_shape = {c.batch, vertical.output, horizontal.output, c.params.filters};
  }

  /// Calls visit(index in y, index in x, index in the weights) for every product.
  template <typename Visit>
  void for_each_product(const Visit& visit) const {
    const std::int64_t in = x_shape[3], filters = y_shape[3];
    const std::int64_t group_in = in / groups, group_filters = filters / groups;
    const auto inside = [](std::int64_t at, const SlidingWindow& axis) { return at >= 0 && at < axis.input; };
    for (std::int64_t pixel = 0; pixel < y_shape[0] * y_shape[1] * y_shape[2]; ++pixel) {
      const std::int64_t n = pixel / (y_shape[1] * y_shape[2]), p = pixel / y_shape[2] % y_shape[1];
      const std::int64_t q = pixel % y_shape[2];
      for (std::int64_t i = 0; i < vertical.window; ++i) {
        for (std::int64_t j = 0; j < horizontal.window; ++j) {
          const std::int64_t h = p * vertical.stride + i * vertical.dilation - vertical.before;
          const std::int64_t w = q * horizontal.stride + j * horizontal.dilation - horizontal.before;
          if (!inside(h, vertical) || !inside(w, horizontal)) continue;
          const std::int64_t x = ((n * x_shape[1] + h) * x_shape[2] + w) * in;
          for (std::int64_t c = 0; c < group_in; ++c) {
            const std::int64_t weight = ((i * horizontal.window + j) * group_in + c) * filters;
            for (std::int64_t o = 0; o < filters; ++o) {
              visit(pixel * filters + o, x + o / group_filters * group_in + c, weight + o);
            }
          }
        }
      }
    }
  }

  /// `biases`: empty if the convolution has none.
  std::vector<double> forward(std::span<const float> x, std::span<const float> weights,
                              std::span<const float> biases) const {
    std::vector<double> y(y_shape.element_count());
    for (std::size_t i = 0; i < y.size() && !biases.empty(); ++i) y[i] = biases[i % biases.size()];
    for_each_product([&](auto yi, auto xi, auto wi) { y[yi] += static_cast<double>(x[xi]) * weights[wi]; });
    return y;
  }

  Conv2dGradients backward(std::span<const float> x, std::span<const float> weights, std::span<const double> dz) const {
    Conv2dGradients g{std::vector<double>(x.size()), std::vector<double>(weights.size()),
                      std::vector<double>(static_cast<std::size_t>(y_shape[3]))};
    for (std::size_t i = 0; i < dz.size(); ++i) g.biases[i % g.biases.size()] += dz[i];
    for_each_product([&](auto yi, auto xi, auto wi) {
      g.x[xi] += dz[yi] * weights[wi];
      g.weights[wi] += dz[yi] * x[xi];
    });
    return g;
  }
};

}  // namespace carillon::testing
