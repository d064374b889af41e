// layer_norm: normalises each row to mean 0 and variance 1 over its channels, then scales and shifts each channel.
//
//   mean[r] = sum over c of x[r,c] / channels     variance[r] = sum over c of (x[r,c] - mean[r])^2 / channels
//   inv[r] = 1 / sqrt(variance[r] + epsilon)      xhat[r,c] = (x[r,c] - mean[r]) inv[r]
//   y[r,c] = gamma[c] xhat[r,c] + beta[c]
//
//   dbeta[c] = sum over r of dy[r,c]              dgamma[c] = sum over r of dy[r,c] xhat[r,c]
//   g[r,c] = gamma[c] dy[r,c]
//   m[r] = sum over c of g[r,c] / channels        s[r] = sum over c of g[r,c] xhat[r,c] / channels
//   dx[r,c] = inv[r] (g[r,c] - m[r] - xhat[r,c] s[r])
//
// x, y: [batch, ..., channels]; r is the index of a row. All extents except the last are flattened into rows. gamma,
// beta: [channels], always float32. Forward computes the same in training and in evaluation.
//
// The variance is computed from distances to the rounded mean, then corrected for the rounding (layer_norm_kernels.h).
// Therefore no digits are lost if the mean is far from 0. In training, the op keeps three floats of each row from
// forward to backward.
//
// Sources: Ba, Kiros, Hinton, "Layer normalization", 2016; PyTorch, LayerNorm over the last extent.
#pragma once

#include "carillon/graph/graph.h"

namespace carillon {

struct LayerNormParams {
  float epsilon = 1e-6f;  ///< above 0

  template <typename Fields>
  void visit(Fields& fields) {
    fields("epsilon", epsilon);
  }
};

/// Adds the variables `name`/gamma (initially 1) and `name`/beta (initially 0). Errors: failed (x has fewer than 2
/// extents; epsilon is out of range).
Value layer_norm(Graph& graph, const std::string& name, Value x, const LayerNormParams& params = {});
extern const OpType layer_norm_op;

/// Tensors: inputs {x}, outputs {y}, parameters {gamma, beta}.
std::unique_ptr<Op> make_layer_norm_cpu(const LayerNormParams& params, const OpContext& context,
                                        const OpTensors& tensors);
/// accumulates_dx: true if backward adds to dx (OpTraits::accumulating).
std::unique_ptr<Op> make_layer_norm_cuda(const LayerNormParams& params, bool accumulates_dx, const OpContext& context,
                                         const OpTensors& tensors);

}  // namespace carillon
