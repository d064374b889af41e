// dropout: in training, each element is 0 with probability `rate`, and what is left is larger for it.
//
//   y[b,i] = kept(b, i) ? x[b,i] / (1 - rate) : 0
//   dx[b,i] = kept(b, i) ? dy[b,i] / (1 - rate) : 0        in place of dy
//
// kept(b, i): a draw of at least rate, for seed, op's name, stream position of sample b and element i of the sample
// alone (dropout_draw.h), so that neither ranks nor batches nor a resume change it. Backward draws again, which is less
// to move than a mask. x, y: [batch, ...]. The batch is taken whole: a slice would not know its samples' positions.
// Source: Srivastava, Hinton, Krizhevsky, Sutskever, Salakhutdinov, "Dropout: a simple way to prevent neural networks
// from overfitting", 2014.
#pragma once

#include "carillon/graph/graph.h"

namespace carillon {

struct DropoutParams {
  float rate = 0.5f;       ///< from 0 to below 1
  bool training = true;    ///< else, and at rate 0, there is no op: y is x
  std::uint64_t seed = 0;  ///< of the draws
};

/// Errors: failed (a rate out of its range).
Value dropout(Graph& graph, const std::string& name, Value x, const DropoutParams& params);

/// What an op of that name draws.
struct DropoutDraws {
  std::uint64_t key = 0;
  float rate = 0.0f;
};

/// Tensors: inputs {x}, outputs {y}.
std::unique_ptr<Op> make_dropout_cpu(const DropoutDraws& draws, const OpContext& context, const OpTensors& tensors);
std::unique_ptr<Op> make_dropout_cuda(const DropoutDraws& draws, const OpContext& context, const OpTensors& tensors);

}  // namespace carillon
