// conv2d: a 2-D convolution (a cross-correlation, as in all deep learning libraries). The op may have biases.
//
//   z[n,p,q,o] = b[o] + sum over i,j,c of x[n, p*s + i*d - before, q*s + j*d - before, c] * W[i,j,c,o],  x = 0 outside
//   y = relu ? max(z, 0) : z
//   dz = relu ? dy * [y > 0] : dy
//   dW[i,j,c,o] = sum over n,p,q of x[n, p*s + i*d - before, q*s + j*d - before, c] * dz[n,p,q,o]
//   db[o] = sum over n,p,q of dz[n,p,q,o]
//   dx[n,h,w,c] = sum over i,j,o of dz[n, (h + before - i*d)/s, (w + before - j*d)/s, o] * W[i,j,c,o],
//                 only for i and j at which s divides both differences
//
// x: [batch, height, width, in], y: [batch, output height, output width, filters]; each axis has its own stride s,
// dilation d and padding (kernels/shared/window.h). Parameters: `<name>/weights` [kernel height, kernel width, in /
// groups, filters] and `<name>/biases` [filters], in TensorFlow's layout. Channels and filters are divided into groups
// of equal size: the filters of a group read the channels of the same group, and c counts the channels of this group.
// If the op has no biases, for example before a batch norm, b is 0 and there is no db. Passes fuse a ReLU that follows
// a convolution with biases into the convolution. If x has several readers, a convolution in bf16 on a CPU that is the
// first reader adds its dx to the sum of the other readers' gradients. This saves a pass over gradients
// (src/graph/passes.h).
#pragma once

#include <optional>
#include <vector>

#include "carillon/graph/graph.h"
#include "kernels/shared/window.h"

namespace carillon {

struct Conv2dParams {
  std::int64_t filters = 0;
  std::int64_t kernel = 0;  ///< height of the kernel, and also its width if kernel_width is 0
  std::int64_t stride = 1;
  Padding padding = Padding::same;
  Initializer weights = {};                           ///< must be set: the default is zeros
  std::optional<Initializer> biases = Initializer{};  ///< nullopt: no biases
  float l2_factor = 0.0f;                             ///< L2 factor of the weights; biases have no L2 term
  bool trains_weights = true;                         ///< false: the weights keep their initial values, but the biases
                                                      ///< are trained
  std::int64_t groups = 1;                            ///< must divide the number of input channels and the number of
                                                      ///< filters
  std::int64_t dilation = 1;
  std::int64_t kernel_width = 0, stride_width = 0, dilation_width = 0;  ///< 0: the value of kernel, stride or dilation
  std::vector<std::int64_t> pads = {};  ///< {top, left, bottom, right}; replaces `padding` if it is not empty

  /// Returns the windows over images [batch, height, width, in]. Errors: the errors of slide_over.
  ImageWindows windows(const Shape& input) const {
    return slide_over(input[1], input[2],
                      {kernel, kernel_width, stride, stride_width, padding, pads, dilation, dilation_width});
  }

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
    fields("groups", groups);
    fields("dilation", dilation);
    fields("kernel_width", kernel_width);
    fields("stride_width", stride_width);
    fields("dilation_width", dilation_width);
    fields("pads", pads);
  }
};

/// Errors: failed (x is not [batch, height, width, in]; the kernel does not fit; the groups do not divide the channels
/// or the filters).
Value conv2d(Graph& graph, const std::string& name, Value x, const Conv2dParams& params);
extern const OpType conv2d_op;

/// The convolution, for tensors of known shapes.
struct Conv2dGeometry {
  SlidingWindow vertical, horizontal;
  bool relu = false;  ///< y = max(z, 0); requires biases
  /// If true, the op has a second output: x, in the memory of x. Backward adds dx to the gradient of the second output;
  /// dx and this gradient have the same memory. Only convolutions in bf16 on a CPU support this.
  bool accumulates_dx = false;
  std::int64_t groups = 1;
};

/// True for a convolution without groups, without dilation, and with padding that is smaller than its windows.
/// Carillon's own fast kernels compute only such convolutions. oneDNN and cuDNN compute all convolutions.
bool is_plain(const Conv2dGeometry& geometry);

/// True if the windows of a plain convolution tile the input: the stride is equal to the window, and there is no
/// padding. This includes windows of one pixel with stride 1.
bool windows_tile_input(const Conv2dGeometry& geometry);

/// Returns the geometry of an op's convolution, or null if the op is not a convolution.
const Conv2dGeometry* conv2d_geometry(const OpDefinition& definition);

/// True if a CPU with this `method` computes a float32 convolution by Winograd's method. `filters`: the shape [r, r, c,
/// o]. `y`: the shape [n, p, q, o] of the output.
bool takes_winograd(const Conv2dGeometry& geometry, ConvolutionMethod method, const Shape& filters, const Shape& y);
/// Returns the names of the graph's convolutions that a CPU computes by Winograd's method. Returns none in bf16.
std::vector<std::string> winograd_convolutions(const Graph& graph, ConvolutionMethod method);

/// Tensors: inputs {x}, outputs {y} or {y, x}, parameters {W, b} or {W}.
std::unique_ptr<Op> make_conv2d_cpu(const Conv2dGeometry& geometry, const OpContext& context, const OpTensors& tensors);
std::unique_ptr<Op> make_conv2d_cuda(const Conv2dGeometry& geometry, const OpContext& context,
                                     const OpTensors& tensors);

}  // namespace carillon
