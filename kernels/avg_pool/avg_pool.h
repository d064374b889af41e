// avg_pool: the mean of each window, for each channel. global_avg_pool: the mean of each image, for each channel.
//
//   y[n,p,q,c] = sum over i,j of x[n, p*s + i - before, q*s + j - before, c] / k[p,q]
//   dx[n,h,w,c] = sum over the windows (p,q) that contain (h,w) of dy[n,p,q,c] / k[p,q]
//
// k[p,q]: number of positions of the window inside x, as in TensorFlow (PyTorch: count_include_pad=False). With
// counts_padding, k is the number of all positions of the window (PyTorch's default: count_include_pad=True). x:
// [batch, height, width, channels]; y: [batch, output height, output width, channels], or [batch, channels] for
// global_avg_pool; stride s and padding as in kernels/shared/window.h, for each axis its own.
#pragma once

#include <vector>

#include "carillon/graph/graph.h"
#include "kernels/shared/window.h"

namespace carillon {

struct AvgPoolParams {
  std::int64_t window = 0;  ///< height and, without window_width, width
  std::int64_t stride = 1;
  Padding padding = Padding::same;
  bool counts_padding = false;                      ///< the mean counts positions of padding
  std::int64_t window_width = 0, stride_width = 0;  ///< 0: as window, stride
  std::vector<std::int64_t> pads = {};              ///< {top, left, bottom, right}, in place of padding; empty: padding

  /// The windows over images [batch, height, width, channels]. Errors: as slide_over.
  ImageWindows windows(const Shape& input) const {
    return slide_over(input[1], input[2], {window, window_width, stride, stride_width, padding, pads});
  }

  template <typename Fields>
  void visit(Fields& fields) {
    fields("window", window);
    fields("stride", stride);
    padding.visit(fields);
    fields("counts_padding", counts_padding);
    fields("window_width", window_width);
    fields("stride_width", stride_width);
    fields("pads", pads);
  }
};

/// Errors: failed (x is not [batch, height, width, channels], the window does not fit, the padding is not smaller
/// than the window).
Value avg_pool(Graph& graph, const std::string& name, Value x, const AvgPoolParams& params);
extern const OpType avg_pool_op;
/// Errors: failed (x is not [batch, height, width, channels]).
Value global_avg_pool(Graph& graph, const std::string& name, Value x);
extern const OpType global_avg_pool_op;

/// The pooling for tensors of known shapes.
struct AvgPoolGeometry {
  SlidingWindow vertical, horizontal;
  bool counts_padding = false;
};

/// 1 / k of a window that has these rows and columns inside the input (offsets_inside). `Axis`: as offsets_inside.
template <typename Axis, typename Int>
CARILLON_HOST_DEVICE inline float share_of_each(const Axis& vertical, const Axis& horizontal, const Interval<Int>& rows,
                                                const Interval<Int>& columns, bool counts_padding) {
  if (counts_padding) return 1.0f / static_cast<float>(vertical.window * horizontal.window);
  return share_of_each(rows, columns);
}

/// Tensors: inputs {x}, outputs {y}, no parameters.
std::unique_ptr<Op> make_avg_pool_cuda(const AvgPoolGeometry& geometry, const OpContext& context,
                                       const OpTensors& tensors);

}  // namespace carillon
