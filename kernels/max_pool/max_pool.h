// max_pool: the largest value of each window, for each channel.
//
//   m[n,p,q,c] = max over i,j of x[n, p*s + i - before, q*s + j - before, c], without padding
//   y = relu ? max(m + b[c], 0) : m + b[c]                  b: 0 without biases
//   k[n,p,q,c] = the (i, j) of that maximum, the first in row-major order among equals
//   dm = relu ? dy * [y > 0] : dy
//   dx[n,h,w,c] = sum over the windows (p,q) whose k is (h,w) of dm[n,p,q,c]
//   db[c] = sum over n,p,q of dm[n,p,q,c]
//
// x: [batch, height, width, channels], y: [batch, output height, output width, channels]; stride s and padding as in
// kernels/shared/window.h, for each axis its own. A NaN in a window makes its y NaN.
//
// The op takes over a ReLU before it (src/graph/passes.h). ReLU before or after the pooling gives the same values and
// gradients. After the pooling, the ReLU processes a quarter of the elements (stride 2), and backward does not need the
// activations of the previous layer. On a GPU, the op also takes over the biases of a convolution before it: rounding
// preserves order, so the largest value plus b is the largest sum. If adding b makes several values equal, the gradient
// goes to the value that was the largest before the addition.
#pragma once

#include <vector>

#include "carillon/graph/graph.h"
#include "kernels/shared/window.h"

namespace carillon {

struct MaxPoolParams {
  std::int64_t window = 0;  ///< height and, without window_width, width; 0: the whole image, without padding
  std::int64_t stride = 1;
  Padding padding = Padding::same;
  std::int64_t window_width = 0, stride_width = 0;  ///< 0: as window, stride
  std::vector<std::int64_t> pads = {};              ///< {top, left, bottom, right}, in place of padding; empty: padding

  /// The windows over images [batch, height, width, channels]. Errors: as slide_over.
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

/// Errors: failed (x is not [batch, height, width, channels], the window has more than 256 positions, the padding is
/// not smaller than the window).
Value max_pool(Graph& graph, const std::string& name, Value x, const MaxPoolParams& params);
extern const OpType max_pool_op;

/// The pooling for tensors of known shapes.
struct MaxPoolGeometry {
  SlidingWindow vertical, horizontal;
  bool relu = false;
};

/// Tensors: inputs {x}, outputs {y}, parameters none or {b} [channels].
std::unique_ptr<Op> make_max_pool_cuda(const MaxPoolGeometry& geometry, const OpContext& context,
                                       const OpTensors& tensors);

}  // namespace carillon
