// SlidingWindow: how a window slides along one axis, as in TensorFlow and, with symmetric padding, PyTorch; and which
// windows contain which positions, for CPU ops and CUDA kernels.
//
//   same:   output = ceil(input / stride), pad = max((output - 1) * stride + window - input, 0), before = pad / 2
//           rounded down: the larger half of an odd padding is after (24 by window 3, stride 2: 0 before, 1 after)
//   valid:  output = (input - window) / stride + 1, no padding
//   symmetric(p):  output = (input + 2 p - window) / stride + 1, p before and after
//
// With stride 1 and an odd window, `same` equals symmetric(window / 2); with stride 2 it does not. Sources: TensorFlow,
// "Notes on padding" of tf.nn; PyTorch, Conv2d.
#pragma once

#include <algorithm>
#include <cstdint>

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
  /// The attribute "padding": "same", or the symmetric padding.
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
};

/// Errors: failed (window or stride below 1; padding below 0, or not below the window; the window does not fit into the
/// padded input).
inline SlidingWindow slide(std::int64_t input, std::int64_t window, std::int64_t stride, Padding padding) {
  check(window > 0 && stride > 0, "window and stride must be at least 1");
  if (!padding.is_same()) {
    const std::int64_t pad = padding.extent(), padded = input + 2 * pad;
    check(pad >= 0 && pad < window, "padding must be smaller than the window");
    if (window > padded)
      fail(ExitCode::failed, "a window of {} does not fit into {} padded to {}", window, input, padded);
    return {input, (padded - window) / stride + 1, window, stride, pad, pad};
  }
  const std::int64_t output = (input + stride - 1) / stride;
  const std::int64_t pad = std::max<std::int64_t>((output - 1) * stride + window - input, 0);
  return {input, output, window, stride, pad / 2, pad - pad / 2};
}

/// Indices [first, last).
template <typename Int>
struct Interval {
  Int first, last;
};

/// The offsets in window number `output` that are inside the input. `Axis`: SlidingWindow or PackedPool::Axis.
template <typename Axis, typename Int = decltype(Axis::input)>
CARILLON_HOST_DEVICE inline Interval<Int> offsets_inside(const Axis& axis, Int output) {
  const Int start = output * axis.stride - axis.before, left = axis.input - start;
  return {start < 0 ? -start : 0, left < axis.window ? left : axis.window};
}

/// The windows that contain `position` of the input.
template <typename Axis, typename Int = decltype(Axis::input)>
CARILLON_HOST_DEVICE inline Interval<Int> windows_over(const Axis& axis, Int position) {
  const Int padded = position + axis.before, end = padded / axis.stride + 1;
  return {padded < axis.window ? 0 : (padded - axis.window) / axis.stride + 1, end < axis.output ? end : axis.output};
}

/// The reciprocal of the number of positions of a window that are inside the input. `rows`, `columns`: results of
/// offsets_inside.
template <typename Int>
CARILLON_HOST_DEVICE inline float share_of_each(const Interval<Int>& rows, const Interval<Int>& columns) {
  return 1.0f / static_cast<float>((rows.last - rows.first) * (columns.last - columns.first));
}

}  // namespace carillon
