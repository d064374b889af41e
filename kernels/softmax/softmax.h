// softmax: converts the last axis into weights. The weights are not negative, and their sum is 1.
//
//   y[i] = exp(x[i] - m) / sum over j of exp(x[j] - m), m: the largest x[j]
//   dx[i] = y[i] (dy[i] - sum over j of dy[j] y[j])
//
// x, y: [batch, ..., n]; i and j are indices of the last axis. If x[i] - m is below -86, y[i] is 0. If an x[i] is NaN
// or +infinity, all y of its row are NaN. The loss of a classification is softmax_cross_entropy, which needs no softmax
// before it. Source: the operator Softmax of ONNX.
#pragma once

#include <string>

#include "carillon/graph/graph.h"

namespace carillon {

/// Errors: failed (x has no axis after the batch).
Value softmax(Graph& graph, const std::string& name, Value x);
extern const OpType softmax_op;

/// Tensors: inputs {x}, outputs {y}.
std::unique_ptr<Op> make_softmax_cuda(const OpTensors& tensors);

}  // namespace carillon
