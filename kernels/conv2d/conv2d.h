// conv2d: a 2-D convolution (a cross-correlation, as in all deep learning libraries), with or without biases.
//
//   z[n,p,q,o] = b[o] + sum over i,j,c of x[n, p*s + i - before, q*s + j - before, c] * W[i,j,c,o],  x = 0 outside
//   y = relu ? max(z, 0) : z
//   dz = relu ? dy * [y > 0] : dy
//   dW[i,j,c,o] = sum over n,p,q of x[n, p*s + i - before, q*s + j - before, c] * dz[n,p,q,o]
//   db[o] = sum over n,p,q of dz[n,p,q,o]
//   dx[n,h,w,c] = sum over i,j,o of dz[n, (h + before - i)/s, (w + before - j)/s, o] * W[i,j,c,o], if s divides
//
// x: [batch, height, width, in], y: [batch, output height, output width, filters]; padding as in
// kernels/shared/window.h. Parameters: `<name>/weights` [kernel, kernel, in, filters] and `<name>/biases` [filters], in
// TensorFlow's layout. Without biases, as before a batch norm, b is 0 and there is no db. A convolution with biases
// takes over a ReLU that follows it. In bf16 on a CPU, if a convolution is the first of several readers of x, it adds
// its dx to the gradient of the other readers, which saves a pass over gradients (gradient_passes.h).
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
  Initializer weights = {};                           ///< zeros by default: set it
  std::optional<Initializer> biases = Initializer{};  ///< nullopt: no biases
  float l2_factor = 0.0f;                             ///< L2 factor of the weights; biases have no L2 term
  bool trains_weights = true;                         ///< false: weights keep their initial values; biases train

  template <typename Fields>
  void visit(Fields& fields) {
    fields("filters", filters);
    fields("kernel", kernel);
    fields("stride", stride);
    padding.visit(fields);
    fields("weights", weights);
    fields("biases", biases);
    fields("l2_factor", l2_factor);
    fields("trains_weights", trains_weights);
  }
};

/// Errors: failed (x is not [batch, height, width, in], the kernel does not fit).
Value conv2d(Graph& graph, const std::string& name, Value x, const Conv2dParams& params);
extern const OpType conv2d_op;

/// The convolution for tensors of known shapes.
struct Conv2dGeometry {
  SlidingWindow vertical, horizontal;
  bool relu = false;  ///< only with biases
  /// If true, the op has a second output: x, in the memory of x. Backward adds dx to the gradient of the second output;
  /// both have the same memory. Only for bf16 on a CPU.
  bool accumulates_dx = false;
};

/// True if the windows tile the input: stride = window, no padding. This includes windows of one pixel with stride 1.
bool windows_tile_input(const Conv2dGeometry& geometry);

/// The geometry of an op's convolution; null if the op is not a convolution.
const Conv2dGeometry* conv2d_geometry(const OpDefinition& definition);

/// Whether a CPU with this `method` computes a float32 convolution by Winograd's method. Filters [r, r, c, o], outputs
/// y [n, p, q, o].
bool takes_winograd(const Conv2dGeometry& geometry, ConvolutionMethod method, const Shape& filters, const Shape& y);
/// The names of the graph's convolutions that a CPU computes by Winograd's method; none in bf16.
std::vector<std::string> winograd_convolutions(const Graph& graph, ConvolutionMethod method);

/// Tensors: inputs {x}, outputs {y} or {y, x}, parameters {W, b} or {W}.
std::unique_ptr<Op> make_conv2d_cpu(const Conv2dGeometry& geometry, const OpContext& context, const OpTensors& tensors);
std::unique_ptr<Op> make_conv2d_cuda(const Conv2dGeometry& geometry, const OpContext& context,
                                     const OpTensors& tensors);

}  // namespace carillon
