// lrn: local response normalisation across channels, as defined by TensorFlow.
//
//   s[c] = bias + alpha * sum over |c' - c| <= depth_radius of x[c']^2
//   y[c] = x[c] * s[c]^-beta                                      x, y: [batch, ..., channels]
//   dx[c] = dy[c] * s[c]^-beta - 2 alpha beta x[c] * sum over |c' - c| <= depth_radius of dy[c'] x[c'] s[c']^(-beta-1)
//
// Windows end at the first and last channel. cuDNN and oneDNN divide alpha by the window size: their alpha is alpha *
// (2 depth_radius + 1). Source: Krizhevsky, Sutskever, Hinton, "ImageNet classification with deep convolutional neural
// networks", 2012, section 3.3.
#pragma once

#include "carillon/graph/graph.h"

namespace carillon {

struct LrnParams {
  int depth_radius = 4;         ///< >= 0
  float bias = 1.0f;            ///< > 0
  float alpha = 0.001f / 9.0f;  ///< >= 0
  float beta = 0.75f;

  template <typename Fields>
  void visit(Fields& fields) {
    fields("depth_radius", depth_radius);
    fields("bias", bias);
    fields("alpha", alpha);
    fields("beta", beta);
  }
};

/// Errors: failed (a parameter is out of range).
Value lrn(Graph& graph, const std::string& name, Value x, const LrnParams& params = {});
extern const OpType lrn_op;

/// Tensors: inputs {x}, outputs {y}.
/// Errors: failed (depth_radius is at least 128, and there are more than 1024 channels).
std::unique_ptr<Op> make_lrn_cuda(const LrnParams& params, const OpContext& context, const OpTensors& tensors);

}  // namespace carillon
