// scale_channels: multiplies each channel by a trained factor ("LayerScale").
//
//   y[r,c] = x[r,c] gamma[c]
//   dx[r,c] = dy[r,c] gamma[c]          dgamma[c] = sum over r of dy[r,c] x[r,c]
//
// x, y: [batch, ..., channels]; r is the index of a row. All extents except the last are flattened into rows. gamma:
// [channels], float32 in every arithmetic. Forward reads x and writes y. Backward reads x and dy once and writes dx.
//
// Source: Touvron, Cord, Sablayrolles, Synnaeve, Jegou, "Going deeper with image transformers", 2021, section 2.
#pragma once

#include "carillon/graph/graph.h"

namespace carillon {

struct ScaleChannelsParams {
  float initial_factor = 1e-6f;  ///< initial value of every channel's factor

  template <typename Fields>
  void visit(Fields& fields) {
    fields("initial_factor", initial_factor);
  }
};

/// Adds the variable `name`/gamma. Errors: failed (x has fewer than 2 extents).
Value scale_channels(Graph& graph, const std::string& name, Value x, const ScaleChannelsParams& params = {});
extern const OpType scale_channels_op;

/// Tensors: inputs {x}, outputs {y}, parameters {gamma}.
std::unique_ptr<Op> make_scale_channels_cpu(const OpContext& context, const OpTensors& tensors);
/// Tensors: the same as on a CPU, or inputs {x, addend} to compute y = x gamma + addend. The gradient of the addend is
/// in the memory of the gradient of y.
std::unique_ptr<Op> make_scale_channels_cuda(const OpContext& context, const OpTensors& tensors);

}  // namespace carillon
