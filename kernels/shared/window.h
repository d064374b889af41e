// SlidingWindow: describes how a window slides along one axis, for CPU ops and CUDA kernels. The sizes follow
// TensorFlow's rules or, with symmetric padding, PyTorch's rules. Other functions find the positions in a window, and
// the windows that contain a position.
//
// A window with a dilation d reads every d-th position. The span of a window is (window - 1) * d + 1. If there is no
// dilation, the span is equal to the window. In the formulas, `window` is the span.
//
//   same:   output = ceil(input / stride), pad = max((output - 1) * stride + window - input, 0), before = pad / 2
//           rounded down: the larger half of an odd padding is after (input 24, window 3, stride 2: 0 before, 1 after)
//   valid:  output = (input - window) / stride + 1, no padding
//   symmetric(p):  output = (input + 2 p - window) / stride + 1, p before and after
//   pads:   output = (input + before + after - window) / stride + 1
//
// If the stride is 1 and the window is odd, `same` has the same padding as symmetric(window / 2). If the stride is 2,
// the two paddings can differ. Sources: TensorFlow, "Notes on padding" of tf.nn; PyTorch, Conv2d; ONNX, Conv, for pads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "carillon/core/error.h"
#include "carillon/core/host_device.h"

namespace carillon {

class Padding {
 public:
  static const Padding same, valid;
  static constexpr Padding symmetric(std::int64_t extent) { return {Kind::symmetric, extent}; }

  constexpr bool is_same() const { return kind_ == Kind::same; }
  /// Padding before and after; only for symmetric padding.
  constexpr std::int64_t extent() const { return extent_; }
  constexpr bool operator==(const Padding&) const = default;
  /// The text of the attribute "padding": "same", or the extent of the symmetric padding.
  template <typename Fields>
  void visit(Fields& fields) {
    std::int64_t value = is_same() ? -1 : extent_;
    fields.number_or_word("padding", value, "same");
    *this = value < 0 ? Padding(Kind::same, 0) : symmetric(value);
  }

 private:
  enum class Kind { same, symmetric };
  constexpr Padding(Kind kind, std::int64_t extent) : kind_(kind), extent_(extent) {}

  Kind kind_;
  std::int64_t extent_;
};
inline constexpr Padding Padding::same{Kind::same, 0};
inline constexpr Padding Padding::valid = Padding::symmetric(0);

/// One axis of a convolution or a pooling.
struct SlidingWindow {
  std::int64_t input, output, window, stride;
  std::int64_t before, after;  ///< padding
  std::int64_t dilation = 1;   ///< distance between neighbouring positions of a window

  /// Returns the number of positions from the first to the last position of a window.
  constexpr std::int64_t span() const { return (window - 1) * dilation + 1; }
  /// True if every window contains a position of the input.
  constexpr bool pads_less_than_window() const { return before < window && after < window; }
};

/// Makes a window with these paddings, which may be larger than the window. Errors: failed (the window, the stride or
/// the dilation is below 1; a padding is below 0; the window does not fit into the padded input).
inline SlidingWindow slide_padded(std::int64_t input, std::int64_t window, std::int64_t stride, std::int64_t before,
                                  std::int64_t after, std::int64_t dilation = 1) {
  check(window > 0 && stride > 0 && dilation > 0, "window, stride and dilation must be at least 1");
  check(before >= 0 && after >= 0, "padding must be at least 0");
  SlidingWindow axis{input, 0, window, stride, before, after, dilation};
  const std::int64_t padded = input + before + after;
  if (axis.span() > padded)
    fail(ExitCode::failed, "a window of {} does not fit into {} padded to {}", axis.span(), input, padded);
  axis.output = (padded - axis.span()) / stride + 1;
  return axis;
}

/// Errors: the errors of slide_padded; failed (symmetric padding is not below the span of the window).
inline SlidingWindow slide(std::int64_t input, std::int64_t window, std::int64_t stride, Padding padding,
                           std::int64_t dilation = 1) {
  check(window > 0 && stride > 0 && dilation > 0, "window, stride and dilation must be at least 1");
  const std::int64_t span = (window - 1) * dilation + 1;
  if (!padding.is_same()) {
    check(padding.extent() < span, "padding must be smaller than the window");
    return slide_padded(input, window, stride, padding.extent(), padding.extent(), dilation);
  }
  const std::int64_t output = (input + stride - 1) / stride;
  const std::int64_t pad = std::max<std::int64_t>((output - 1) * stride + span - input, 0);
  return {input, output, window, stride, pad / 2, pad - pad / 2, dilation};
}

/// A window over images, as the params of an op describe it. If `width`, `stride_width` or `dilation_width` is 0, the
/// value for the height applies.
struct ImageWindow {
  std::int64_t height, width, stride, stride_width;
  Padding padding;
  std::vector<std::int64_t> pads;  ///< {top, left, bottom, right}; replaces `padding` if it is not empty
  std::int64_t dilation = 1, dilation_width = 0;
};

/// The windows along both axes of an image.
struct ImageWindows {
  SlidingWindow vertical, horizontal;
};

/// Errors: the errors of slide or, if pads are given, of slide_padded; failed (pads are not 4 numbers).
inline ImageWindows slide_over(std::int64_t height, std::int64_t width, const ImageWindow& window) {
  const auto or_height = [](std::int64_t of_width, std::int64_t of_height) {
    check(of_width >= 0, "window, stride and dilation must be at least 1");
    return of_width == 0 ? of_height : of_width;
  };
  const std::vector<std::int64_t>& pads = window.pads;
  if (!pads.empty() && pads.size() != 4) fail(ExitCode::failed, "pads has {} numbers instead of 4", pads.size());
  const auto along = [&](std::int64_t input, std::int64_t extent, std::int64_t stride, std::int64_t dilation,
                         std::size_t first_pad) {
    if (pads.empty()) return slide(input, extent, stride, window.padding, dilation);
    return slide_padded(input, extent, stride, pads[first_pad], pads[first_pad + 2], dilation);
  };
  return {along(height, window.height, window.stride, window.dilation, 0),
          along(width, or_height(window.width, window.height), or_height(window.stride_width, window.stride),
                or_height(window.dilation_width, window.dilation), 1)};
}

/// The indices [first, last).
template <typename Int>
struct Interval {
  Int first, last;
};

/// Returns the offsets in window number `output` that are inside the input, without dilation. `Axis`: SlidingWindow or
/// PackedPool::Axis.
template <typename Axis, typename Int = decltype(Axis::input)>
CARILLON_HOST_DEVICE inline Interval<Int> offsets_inside(const Axis& axis, Int output) {
  const Int start = output * axis.stride - axis.before, left = axis.input - start;
  return {start < 0 ? -start : 0, left < axis.window ? left : axis.window};
}

/// Returns the windows that contain `position` of the input, without dilation.
template <typename Axis, typename Int = decltype(Axis::input)>
CARILLON_HOST_DEVICE inline Interval<Int> windows_over(const Axis& axis, Int position) {
  const Int padded = position + axis.before, end = padded / axis.stride + 1;
  return {padded < axis.window ? 0 : (padded - axis.window) / axis.stride + 1, end < axis.output ? end : axis.output};
}

/// Returns the reciprocal of the number of positions of a window that are inside the input. `rows`, `columns`: results
/// of offsets_inside.
template <typename Int>
CARILLON_HOST_DEVICE inline float share_of_each(const Interval<Int>& rows, const Interval<Int>& columns) {
  return 1.0f / static_cast<float>((rows.last - rows.first) * (columns.last - columns.first));
}

}  // namespace carillon
