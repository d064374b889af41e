// How convolutions and pools of ONNX slide over images.
#pragma once

#include <algorithm>
#include <functional>

#include "kernels/shared/window.h"
#include "src/onnx/importer.h"

namespace carillon {

/// How the windows of a node slide over images: height, then width.
struct Windows {
  Extents window, stride, dilation;
  Extents pads;  ///< top, left, bottom, right; empty: TensorFlow's "same"

  /// Whether Padding can describe the pads: all are equal, or they are TensorFlow's "same".
  bool has_even_pads() const { return std::ranges::adjacent_find(pads, std::not_equal_to<>()) == pads.end(); }
  Padding padding() const { return pads.empty() ? Padding::same : Padding::symmetric(pads[0]); }
  bool suits_depthwise() const {
    const auto pads_less = [&](std::size_t i) { return pads[i] < window[i % 2]; };
    return dilation == Extents{1, 1} &&
           (pads.empty() || (pads_less(0) && pads_less(1) && pads_less(2) && pads_less(3)));
  }
  /// Sets the window fields of an op's parameters.
  template <typename Params>
  void set(Params& params) const {
    params.stride = stride[0];
    if (stride[1] != stride[0]) params.stride_width = stride[1];
    if (has_even_pads()) {
      params.padding = padding();
    } else {
      params.pads = pads;
    }
  }
};

/// Returns rows [batch, channels, length] as images of width 1.
Placed as_image(Placed rows);

/// The windows of a convolution or pool over images, or over rows as images of width 1. `window`: the kernel's shape.
/// Errors: data (the node does not slide over images; an extent is below 1).
Windows windows_of(Importer& importer, const OnnxNode& node, const Extents& window);

}  // namespace carillon
