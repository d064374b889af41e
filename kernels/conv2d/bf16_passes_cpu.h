// The passes of bf16_conv2d.h, and their common functions.
#pragma once

#include <memory>

#include "carillon/core/parallel.h"
#include "kernels/conv2d/conv2d_passes_cpu.h"
#include "kernels/conv2d/gather_axis.h"
#include "kernels/shared/bf16_tiles.h"

namespace carillon {

/// target = source * filters + bias, then an optional ReLU: y from x, or dx from dz. Source and target are bf16. With
/// `accumulate`, which excludes biases and a ReLU: target = target + source * filters, rounded once.
///
/// source: [n, h, w, c], filters: [r, r, c, o], bias: [o] or no data, target: [n, p, q, o]. If the axes are backward,
/// the filters have the layout of the forward convolution, [r, r, o, c].
struct Bf16Convolution {
  Tensor source, filters, bias, target;
  GatherAxis rows, columns;
  bool relu = false, accumulate = false;
};

/// dw = the sum over images and pixels of x and dz. x: [n, h, w, c] and dz: [n, p, q, o] in bf16; dw: [r, r, c, o] in
/// float32.
struct Bf16WeightsGradient {
  Tensor x, dz, dw;
  SlidingWindow rows, columns;
};

std::unique_ptr<Conv2dPassCpu> make_bf16_pass(CpuDevice& device, const Bf16Convolution& task);
std::unique_ptr<Conv2dPassCpu> make_bf16_pass(CpuDevice& device, const Bf16WeightsGradient& task);

inline constexpr std::int64_t half_tile = tile_elements / 2;
/// Part of a core's second-level cache, for packed operands.
inline constexpr std::int64_t packed_cache_bytes = std::int64_t{1} << 20;

/// Number of floats that hold `elements` of bf16.
inline std::int64_t floats_of(std::int64_t elements) { return ceil_divide(elements, 2); }

/// The size of the largest part if `count` is split evenly into the fewest parts of at most `most`.
inline std::int64_t even_part(std::int64_t count, std::int64_t most) {
  return ceil_divide(count, ceil_divide(count, most));
}

/// The number of images in a group: 16, or fewer in the last group.
inline std::int64_t images_of_group(std::int64_t group, std::int64_t images) {
  return std::min(tile_rows, images - group * tile_rows);
}

}  // namespace carillon
