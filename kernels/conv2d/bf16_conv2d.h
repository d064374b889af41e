// Convolutions of bf16 tensors with sums in float32, by products of tiles (kernels/shared/bf16_tiles.h).
//
// Weights and their gradients are float32 in memory. Packing rounds the weights to bf16. Products with zeros are also
// computed, so an infinity next to padding can cause a NaN. Float32 convolutions omit products with padding.
//   forward and data gradient: a left tile ("cell") is one pixel of 16 images by 32 channels. A product is omitted if
//     all its pixels are outside the image or, in the data gradient, at positions that the stride skips. If this is
//     true for only some of its pixels, tiles of zeros replace these pixels.
//   weights gradient: a left tile is 16 channels by 32 values: one pixel of two groups of 16 images, or two pixels of
//     one group, from the upper and the lower half of the rows. The code uses the variant with fewer empty products.
//   fewer than 16 channels: the pixels that a row of the filter reads become channels of one pixel (ExpandedColumns).
// The number of threads changes neither the order of additions nor the bits of the results.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "carillon/core/parallel.h"
#include "kernels/conv2d/conv2d_passes_cpu.h"
#include "kernels/shared/bf16_tiles.h"
#include "kernels/shared/window.h"
#include "src/device/cpu_device.h"

namespace carillon {

/// The source positions that a target position reads along one axis. A convolution reads x (source) for y (target); its
/// data gradient reads dz (source) for dx (target).
struct GatherAxis {
  std::int64_t source, target;          ///< extents of source and target along the axis
  std::int64_t window, stride, before;  ///< geometry of the convolution; before: padding
  bool backward;

  static GatherAxis forward_of(const SlidingWindow& w) {
    return {w.input, w.output, w.window, w.stride, w.before, false};
  }
  static GatherAxis backward_of(const SlidingWindow& w) {
    return {w.output, w.input, w.window, w.stride, w.before, true};
  }

  /// Returns the source position that target `at` reads at filter position `tap`. Returns -1 if this position is
  /// padding or between strides.
  std::int64_t source_of(std::int64_t at, std::int64_t tap) const {
    std::int64_t found = backward ? at + before - tap : at * stride + tap - before;
    if (backward) {
      if (found < 0 || found % stride != 0) return -1;
      found /= stride;
    }
    return found >= 0 && found < source ? found : -1;
  }

  /// Targets that are period() apart read source positions at the same filter positions (taps), except at the edges.
  std::int64_t period() const { return backward ? stride : 1; }

  /// The source positions [first, last).
  struct Range {
    std::int64_t first, last;
    std::int64_t length() const { return last - first; }
  };
  /// Returns the smallest range of source positions that contains all positions that targets [first, last) read.
  Range sources_of(std::int64_t first, std::int64_t last) const {
    Range range{source, 0};
    for (std::int64_t at = first; at < last; ++at) {
      for (std::int64_t tap = 0; tap < window; ++tap) {
        const std::int64_t found = source_of(at, tap);
        if (found < 0) continue;
        range = {std::min(range.first, found), std::max(range.last, found + 1)};
      }
    }
    return range.first < range.last ? range : Range{0, 0};
  }
  /// Returns the largest number of source positions that `count` consecutive targets read.
  std::int64_t most_sources(std::int64_t count) const {
    const std::int64_t most = backward ? (count + window - 2) / stride + 1 : (count - 1) * stride + window;
    return std::min(most, source);
  }
};

/// For a convolution with few channels. For each output column, copies the pixels that a row of the filter reads. The
/// copies become neighbouring channels of one pixel.
///
///   expanded[n, h, q, j c + k] = x[n, h, q stride + j - before, k], zeros outside     x: [n, h, w, c], j < r, k < c
///
/// Therefore a filter [r, r, c, o] with few channels becomes a filter [r, 1, r c, o] at the same address, which fills
/// tiles better.
class ExpandedColumns {
 public:
  /// x must be bf16.
  ExpandedColumns(CpuDevice& device, const Tensor& x, const SlidingWindow& columns);

  /// Fills `tensor()` from x.
  void fill() const;
  /// Returns the expanded columns: [n, h, q, r c] in bf16.
  const Tensor& tensor() const { return expanded_; }
  /// Returns the horizontal axis of the convolution of tensor(). The windows of this axis have one column, because the
  /// columns of the filter are now channels.
  SlidingWindow columns() const { return {columns_.output, columns_.output, 1, 1, 0, 0}; }

 private:
  Tensor x_;
  SlidingWindow columns_;
  Buffer memory_;
  Tensor expanded_;
};

/// Computes target = source * filters + bias, then an optional ReLU. In forward, the target is y and the source is x.
/// In the data gradient, the target is dx and the source is dz. Source and target are bf16. If `accumulate` is true,
/// computes target = target + source * filters, rounded once. In this case, there are no biases and no ReLU.
///
/// source: [n, h, w, c], filters: [r, r, c, o], bias: [o] or no data, target: [n, p, q, o]. If the axes are backward,
/// the filters have the layout of the forward convolution, [r, r, o, c].
struct Bf16Convolution {
  Tensor source, filters, bias, target;
  GatherAxis rows, columns;
  bool relu = false, accumulate = false;
};

/// Computes dw = the sum over images and pixels of the products of x and dz. x: [n, h, w, c] and dz: [n, p, q, o] in
/// bf16; dw: [r, r, c, o] in float32.
struct Bf16WeightsGradient {
  Tensor x, dz, dw;
  SlidingWindow rows, columns;
};

std::unique_ptr<Conv2dPassCpu> make_bf16_pass(CpuDevice& device, const Bf16Convolution& task);
std::unique_ptr<Conv2dPassCpu> make_bf16_pass(CpuDevice& device, const Bf16WeightsGradient& task);

inline constexpr std::int64_t half_tile = tile_elements / 2;
/// The number of bytes of a core's second-level cache that packed operands may use.
inline constexpr std::int64_t packed_cache_bytes = std::int64_t{1} << 20;

/// Returns the number of floats that need the same memory as `elements` bf16 values.
inline std::int64_t floats_of(std::int64_t elements) { return ceil_divide(elements, 2); }

/// Divides `count` into as few equal parts as possible, of at most `most` each. Returns the size of the largest part.
inline std::int64_t even_part(std::int64_t count, std::int64_t most) {
  return ceil_divide(count, ceil_divide(count, most));
}

/// Returns the number of images in a group: 16, or fewer in the last group.
inline std::int64_t images_of_group(std::int64_t group, std::int64_t images) {
  return std::min(tile_rows, images - group * tile_rows);
}

/// Makes the passes if x, y and their gradients are bf16. Requires that is_plain returns true.
Conv2dPassesCpu make_bf16_conv2d(const Conv2dGeometry& geometry, CpuDevice& device, const OpTensors& tensors);

}  // namespace carillon
