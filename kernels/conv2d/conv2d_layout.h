// conv2d's tensors in cuDNN's terms: extents in its order (batch or filter, channel, row, column) and strides in
// memory, in elements.
//
// The memory layout of activations is [batch, row, column, channel]. The memory layout of weights is [filter, row,
// column, channel], because cuDNN's kernels require channels innermost. This is the transpose of the parameter's layout
// [row * column * channel, filter]. Source: cuDNN, "Graph API", tensors and layouts; pre- and post-padding of its
// convolution descriptor.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/conv2d/conv2d.h"

namespace carillon {

struct StridedTensor {
  std::array<std::int64_t, 4> extents, strides;
};

/// A tensor with the memory layout [outer, rows, columns, channels].
inline StridedTensor channels_last(std::int64_t outer, std::int64_t channels, std::int64_t rows, std::int64_t columns) {
  return {{outer, channels, rows, columns}, {rows * columns * channels, 1, columns * channels, channels}};
}

struct Conv2dLayout {
  StridedTensor x, weights, biases, y;
  std::array<std::int64_t, 2> stride, padding_before, padding_after;  ///< for rows, for columns
  std::array<std::int64_t, 2> dilation = {1, 1};
};

/// Shapes as in conv2d.h; `weights`: shape of the parameter. If x has more channels than the parameter (padding), the
/// weights are padded to the same number of channels. cuDNN derives the number of groups from the channels of x and of
/// the weights.
inline Conv2dLayout conv2d_layout(const Conv2dGeometry& geometry, const Shape& x, const Shape& weights,
                                  const Shape& y) {
  const SlidingWindow &rows = geometry.vertical, &columns = geometry.horizontal;
  return {.x = channels_last(x[0], x[3], x[1], x[2]),
          .weights = channels_last(weights[3], x[3] / geometry.groups, weights[0], weights[1]),
          .biases = channels_last(1, weights[3], 1, 1),
          .y = channels_last(y[0], y[3], y[1], y[2]),
          .stride = {rows.stride, columns.stride},
          .padding_before = {rows.before, columns.before},
          .padding_after = {rows.after, columns.after},
          .dilation = {rows.dilation, columns.dilation}};
}

}  // namespace carillon
