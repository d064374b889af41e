// conv2d: a 2-D convolution (cross-correlation, as everywhere in this field), with biases or without; where it has
// them, a ReLU behind it becomes part of it (src/graph/passes.h).
//
//   z[n,p,q,o] = b[o] + sum over i,j,c of x[n, p*s + i - before, q*s + j - before, c] * W[i,j,c,o],  x = 0 outside
//   y = relu ? max(z, 0) : z
//   dz = relu ? dy * [y > 0] : dy
//   dW[i,j,c,o] = sum over n,p,q of x[n, p*s + i - before, q*s + j - before, c] * dz[n,p,q,o]
//   db[o] = sum over n,p,q of dz[n,p,q,o]
//   dx[n,h,w,c] = sum over i,j,o of dz[n, (h + before - i)/s, (w + before - j)/s, o] * W[i,j,c,o], where s divides
//
// x: [batch, height, width, in], y: [batch, output height, output width, filters]; padding as in
// kernels/shared/window.h. Parameters `<name>/weights` [kernel, kernel, in, filters] and `<name>/biases` [filters],
// TensorFlow's layout. Without biases, as before a batch norm, b is 0 and there is no db.
#pragma once

#include <optional>

#include "carillon/graph/graph.h"
#include "kernels/shared/window.h"

namespace carillon {

struct Conv2dParams {
  std::int64_t filters = 0;
  std::int64_t kernel = 0;  ///< height and width
  std::int64_t stride = 1;
  Padding padding = Padding::same;
  Initializer weights = {};
  std::optional<Initializer> biases = Initializer{};  ///< nothing: it has none
  float l2_factor = 0.0f;                             ///< of the weights; biases have none
  bool trains_weights = true;                         ///< else they stay as they begin; biases train
};

/// Errors: failed (an x that is not [batch, height, width, in], a kernel that does not fit).
Value conv2d(Graph& graph, const std::string& name, Value x, const Conv2dParams& params);

/// The convolution between tensors whose shapes are known.
struct Conv2dGeometry {
  SlidingWindow vertical, horizontal;
  bool relu = false;  ///< only with biases
};

/// Whether a CPU told `method` computes it by Winograd's method. Filters [r, r, c, o], outputs y [n, p, q, o].
bool takes_winograd(const Conv2dGeometry& geometry, ConvolutionMethod method, const Shape& filters, const Shape& y);
/// The names of the graph's convolutions that it computes so.
std::vector<std::string> winograd_convolutions(const Graph& graph, ConvolutionMethod method);

/// Tensors: inputs {x}, outputs {y}, parameters {W, b} or {W}.
std::unique_ptr<Op> make_conv2d_cpu(const Conv2dGeometry& geometry, const OpContext& context, const OpTensors& tensors);
std::unique_ptr<Op> make_conv2d_cuda(const Conv2dGeometry& geometry, const OpContext& context,
                                     const OpTensors& tensors);

}  // namespace carillon
