// max_pool: the largest value of each window, channel by channel.
//
//   m[n,p,q,c] = max over i,j of x[n, p*s + i - before, q*s + j - before, c], padding left out
//   y = relu ? max(m + b[c], 0) : m + b[c]                  b: 0 where there are no biases
//   k[n,p,q,c] = the (i, j) of that maximum, the first in row-major order among equals
//   dm = relu ? dy * [y > 0] : dy
//   dx[n,h,w,c] = sum over the windows (p,q) whose k is (h,w) of dm[n,p,q,c]
//   db[c] = sum over n,p,q of dm[n,p,q,c]
//
// x: [batch, height, width, channels], y: [batch, output height, output width, channels]; padding as in
// kernels/shared/window.h. A NaN in a window makes its y NaN.
//
// A ReLU before it becomes part of it (src/graph/passes.h): both orders give the same values and gradients, and here
// the ReLU has a quarter of the elements (stride 2), and backward needs no activations of the layer before. On a GPU a
// convolution's biases do, too: rounding keeps order, so that the largest plus b is the largest of what b was added to.
// Where b makes the largest equal to others, their gradient goes to the one that was the largest before.
#pragma once

#include "carillon/graph/graph.h"
#include "kernels/shared/window.h"

namespace carillon {

struct MaxPoolParams {
  std::int64_t window = 0;  ///< height and width, at most 16
  std::int64_t stride = 1;
  Padding padding = Padding::same;
};

/// Errors: failed (an x that is not [batch, height, width, channels], a window that is too large).
Value max_pool(Graph& graph, const std::string& name, Value x, const MaxPoolParams& params);

/// The pooling between tensors whose shapes are known.
struct MaxPoolGeometry {
  SlidingWindow vertical, horizontal;
  bool relu = false;
};

/// Tensors: inputs {x}, outputs {y}, no parameters; on a GPU perhaps {b}, [channels].
std::unique_ptr<Op> make_max_pool_cpu(const MaxPoolGeometry& geometry, const OpContext& context,
                                      const OpTensors& tensors);
std::unique_ptr<Op> make_max_pool_cuda(const MaxPoolGeometry& geometry, const OpContext& context,
                                       const OpTensors& tensors);

}  // namespace carillon
