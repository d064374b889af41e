// How a window slides along one axis, after TensorFlow.
//
//   same:   output = ceil(input / stride), pad = max((output - 1) * stride + window - input, 0), before = pad / 2
//           rounded down: an odd padding has its larger half after (24 by window 3, stride 2: 0 before, 1 after)
//   valid:  output = (input - window) / stride + 1, no padding
//
// Source: TensorFlow, "Notes on padding" of tf.nn.
#pragma once

#include <algorithm>
#include <cstdint>

#include "carillon/core/error.h"

namespace carillon {

enum class Padding { same, valid };

/// One axis of a convolution or a pooling.
struct SlidingWindow {
  std::int64_t input, output, window, stride;
  std::int64_t before, after;  ///< padding
};

/// Errors: failed (a window or stride below 1, a window that does not fit into an unpadded input).
inline SlidingWindow slide(std::int64_t input, std::int64_t window, std::int64_t stride, Padding padding) {
  check(window > 0 && stride > 0, "a window and its stride must be at least 1");
  if (padding == Padding::valid) {
    if (window > input) fail(ExitCode::failed, "a window of {} does not fit into {} without padding", window, input);
    return {input, (input - window) / stride + 1, window, stride, 0, 0};
  }
  const std::int64_t output = (input + stride - 1) / stride;
  const std::int64_t pad = std::max<std::int64_t>((output - 1) * stride + window - input, 0);
  return {input, output, window, stride, pad / 2, pad - pad / 2};
}

}  // namespace carillon
