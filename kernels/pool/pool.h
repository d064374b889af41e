// Pooling of images: max_pool, avg_pool and global_avg_pool.
//
// x: [batch, height, width, channels], y: [batch, output height, output width, channels], or [batch, channels] for
// global_avg_pool; each axis has its own stride s and padding, as in kernels/shared/window.h.
#pragma once

#include <vector>

#include "carillon/graph/graph.h"
#include "kernels/shared/window.h"

namespace carillon {

// max_pool: the largest value of each window, for each channel.
//
//   m[n,p,q,c] = max over i,j of x[n, p*s + i - before, q*s + j - before, c]; i, j: positions inside the image
//   y = relu ? max(m + b[c], 0) : m + b[c]                  b: 0 without biases
//   k[n,p,q,c] = the pixel (h, w) of x that has this maximum; of several equal values, the first in row-major order
//   dm = relu ? dy * [y > 0] : dy
//   dx[n,h,w,c] = sum over the windows (p,q) with k = (h,w) of dm[n,p,q,c]
//   db[c] = sum over n,p,q of dm[n,p,q,c]
//
// If a window contains a NaN, the y of this window is NaN.
//
// Passes fuse a ReLU before the op into the op (src/graph/passes.h). A ReLU before the pooling and a ReLU after the
// pooling give the same values and gradients. After the pooling, the ReLU processes only a quarter of the elements
// (stride 2), and backward does not need the activations of the previous layer. On a GPU, passes also fuse the biases
// of a convolution before the op into the op. Rounding preserves order, so the largest value plus b is the largest sum.
// If several values become equal when b is added, the value that was the largest before the addition gets the gradient.

struct MaxPoolParams {
  std::int64_t window = 0;  ///< height of the window, and also its width if window_width is 0; 0: the whole image,
                            ///< without padding
  std::int64_t stride = 1;
  Padding padding = Padding::same;
  std::int64_t window_width = 0, stride_width = 0;  ///< 0: the value of window or stride
  std::vector<std::int64_t> pads = {};              ///< {top, left, bottom, right}; replaces `padding` if it is not
                                                    ///< empty

  /// Returns the windows over images [batch, height, width, channels]. Errors: the errors of slide_over.
  ImageWindows windows(const Shape& input) const {
    if (window == 0)
      return slide_over(input[1], input[2], {input[1], input[2], input[1], input[2], Padding::valid, {}});
    return slide_over(input[1], input[2], {window, window_width, stride, stride_width, padding, pads});
  }

  template <typename Fields>
  void visit(Fields& fields) {
    fields("window", window);
    fields("stride", stride);
    padding.visit(fields);
    fields("window_width", window_width);
    fields("stride_width", stride_width);
    fields("pads", pads);
  }
};

/// Errors: failed (x is not [batch, height, width, channels]; the window has more than 256 positions; the padding is
/// not smaller than the window).
Value max_pool(Graph& graph, const std::string& name, Value x, const MaxPoolParams& params);
extern const OpType max_pool_op;

/// The pooling, for tensors of known shapes.
struct MaxPoolGeometry {
  SlidingWindow vertical, horizontal;
  bool relu = false;
};

/// The changes that passes make to a max_pool on a GPU.
struct MaxPoolForm {
  MaxPoolGeometry geometry;
  bool has_biases = false;           ///< true: the op adds biases (see above)
  bool has_second_gradient = false;  ///< true: the gradient of y is the sum of the gradients of outputs 0 and 1; there
                                     ///< are no biases
};

/// Tensors: inputs {x}; outputs {y}, or {y, second} if there is a second gradient; no parameters, or {b} [channels].
/// The op neither reads nor writes `second`, but it reads the gradient of `second`.
std::unique_ptr<Op> make_max_pool_cuda(const MaxPoolForm& form, const OpContext& context, const OpTensors& tensors);

// avg_pool: the mean of each window, for each channel. global_avg_pool: the mean of each image, for each channel.
//
//   y[n,p,q,c] = sum over i,j of x[n, p*s + i - before, q*s + j - before, c] / k[p,q]
//   dx[n,h,w,c] = sum over the windows (p,q) that contain (h,w) of dy[n,p,q,c] / k[p,q]
//
// k[p,q] is the number of positions of the window that are inside x, as in TensorFlow (PyTorch:
// count_include_pad=False). If counts_padding is true, k is the number of all positions of the window (PyTorch's
// default: count_include_pad=True).

struct AvgPoolParams {
  std::int64_t window = 0;  ///< height of the window, and also its width if window_width is 0
  std::int64_t stride = 1;
  Padding padding = Padding::same;
  bool counts_padding = false;                      ///< true: the mean also counts positions in the padding
  std::int64_t window_width = 0, stride_width = 0;  ///< 0: the value of window or stride
  std::vector<std::int64_t> pads = {};              ///< {top, left, bottom, right}; replaces `padding` if it is not
                                                    ///< empty

  /// Returns the windows over images [batch, height, width, channels]. Errors: the errors of slide_over.
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

/// Errors: failed (x is not [batch, height, width, channels]; the window does not fit; the padding is not smaller than
/// the window).
Value avg_pool(Graph& graph, const std::string& name, Value x, const AvgPoolParams& params);
extern const OpType avg_pool_op;
/// Errors: failed (x is not [batch, height, width, channels]).
Value global_avg_pool(Graph& graph, const std::string& name, Value x);
extern const OpType global_avg_pool_op;

/// The pooling, for tensors of known shapes.
struct AvgPoolGeometry {
  SlidingWindow vertical, horizontal;
  bool counts_padding = false;
};

/// Returns 1 / k for a window. `rows`, `columns`: the part of the window that is inside the input (offsets_inside).
/// `Axis`: SlidingWindow or PackedPool::Axis.
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
