// depthwise_conv2d: a 2-D convolution of each channel with its own filter. The op may have biases.
//
//   y[n,p,q,c] = b[c] + sum over i,j of x[n, p*s + i - before, q*s + j - before, c] * W[i,j,0,c],  x = 0 outside
//   dW[i,j,0,c] = sum over n,p,q of x[n, p*s + i - before, q*s + j - before, c] * dy[n,p,q,c]
//   db[c] = sum over n,p,q of dy[n,p,q,c]
//   dx[n,h,w,c] = sum over i,j of dy[n, (h + before - i)/s, (w + before - j)/s, c] * W[i,j,0,c], only for i and j at
//                 which s divides both differences
//
// x: [batch, height, width, channels], y: [batch, output height, output width, channels]; each axis has its own stride
// s and padding (kernels/shared/window.h). Parameters: `<name>/weights` [kernel height, kernel width, 1, channels] and
// `<name>/biases` [channels]. This is the layout of conv2d with one channel per group. If the op has no biases, b is 0
// and there is no db. For depthwise convolutions with dilation or with several filters per channel, use conv2d with
// groups. Sources: Howard et al., "MobileNets: efficient convolutional neural networks for mobile vision applications",
// 2017; Liu et al., "A ConvNet for the 2020s" (ConvNeXt), 2022.
#pragma once

#include <optional>
#include <vector>

#include "carillon/graph/graph.h"
#include "kernels/shared/window.h"

namespace carillon {

struct DepthwiseConv2dParams {
  std::int64_t kernel = 0;  ///< height of the kernel, and also its width if kernel_width is 0
  std::int64_t stride = 1;
  Padding padding = Padding::same;
  Initializer weights = {};
  std::optional<Initializer> biases = Initializer{};  ///< nullopt: no biases
  float l2_factor = 0.0f;                             ///< L2 factor of the weights; biases have no L2 term
  std::int64_t kernel_width = 0, stride_width = 0;    ///< 0: the value of kernel or stride
  std::vector<std::int64_t> pads = {};                ///< {top, left, bottom, right}; replaces `padding` if it is not
                                                      ///< empty

  /// Returns the windows over images [batch, height, width, channels]. Errors: the errors of slide_over.
  ImageWindows windows(const Shape& input) const {
    return slide_over(input[1], input[2], {kernel, kernel_width, stride, stride_width, padding, pads});
  }

  template <typename Fields>
  void visit(Fields& fields) {
    fields("kernel", kernel);
    fields("stride", stride);
    padding.visit(fields);
    fields("weights", weights);
    fields("biases", biases);
    fields("l2_factor", l2_factor);
    fields("kernel_width", kernel_width);
    fields("stride_width", stride_width);
    fields("pads", pads);
  }
};

/// Errors: failed (x is not [batch, height, width, channels]; the kernel does not fit; the padding is not smaller than
/// the kernel).
Value depthwise_conv2d(Graph& graph, const std::string& name, Value x, const DepthwiseConv2dParams& params);
extern const OpType depthwise_conv2d_op;

/// The convolution, for tensors of known shapes.
struct DepthwiseGeometry {
  SlidingWindow vertical, horizontal;
  bool accumulates_dx = false;  ///< true: backward adds to dx (OpTraits::accumulating); only on a GPU, with stride 1

  bool has_strides() const { return vertical.stride > 1 || horizontal.stride > 1; }
};

/// Tensors: inputs {x}, outputs {y}, parameters {W, b} or {W}.
std::unique_ptr<Op> make_depthwise_conv2d_cuda(const DepthwiseGeometry& geometry, const OpContext& context,
                                               const OpTensors& tensors);

}  // namespace carillon
