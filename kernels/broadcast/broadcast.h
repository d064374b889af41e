// broadcast: multiplies or adds two tensors of different shapes, element by element.
//
//   multiply   y = a b      da = sum of dy b      db = sum of dy a
//   add        y = a + b    da = sum of dy        db = sum of dy
//
// a, b, y: [batch, ...]. If an extent after the batch is 1 or is missing at the front, the operand is repeated along
// this axis, as in NumPy: [batch, 7, 7, 64] and [batch, 64]. The gradient of a repeated operand is the sum over its
// repetitions within each sample, in order of the elements. `add` in kernels/elementwise calls add_broadcast for
// different shapes. Source: the operators Mul and Add of ONNX.
#pragma once

#include <string>

#include "carillon/graph/graph.h"

namespace carillon {

/// Errors: failed (the shapes cannot be broadcast).
Value multiply(Graph& graph, const std::string& name, Value a, Value b);
extern const OpType multiply_op;
/// `type`: add_op. Errors: as multiply.
Value add_broadcast(Graph& graph, const std::string& name, Value a, Value b, const OpType& type);

enum class BroadcastFunction { multiply, add };

/// Tensors: inputs {a, b}, outputs {y}.
std::unique_ptr<Op> make_broadcast_cuda(BroadcastFunction function, const OpTensors& tensors);

}  // namespace carillon
