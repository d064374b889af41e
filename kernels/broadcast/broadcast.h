// Ops between tensors of different shapes: multiply and add repeat an operand along axes, mean sums along axes.
//
// The batch is neither repeated nor summed. Sums are in float32, in order of the elements.
#pragma once

#include <string>
#include <vector>

#include "carillon/graph/graph.h"

namespace carillon {

// Broadcasting: multiplies or adds two tensors of different shapes, element by element.
//
//   multiply   y = a b      da = sum of dy b      db = sum of dy a
//   add        y = a + b    da = sum of dy        db = sum of dy
//
// a, b, y: [batch, ...]. If an operand's extent after the batch is 1, or is missing at the front, the operand is
// repeated along this axis, as in NumPy. An example is [batch, 7, 7, 64] and [batch, 64]. The gradient of a repeated
// operand is the sum over its repetitions within each sample, in order of the elements. `add` in kernels/elementwise
// calls add_broadcast if the shapes differ. Source: the operators Mul and Add of ONNX.

/// Errors: failed (the shapes cannot be broadcast).
Value multiply(Graph& graph, const std::string& name, Value a, Value b);
extern const OpType multiply_op;
/// `type`: the name of the op type, for add_op. Errors: the errors of multiply.
Value add_broadcast(Graph& graph, const std::string& name, Value a, Value b, const OpType& type);

// mean: the mean of each sample's elements along some axes.
//
//   y[i] = sum over the axes of x[i, ...] / n      dx[i, ...] = dy[i] / n      n: the product of the axes' extents
//
// x: [batch, ...]. In y, the averaged axes have extent 1 or are missing. Source: the operator ReduceMean of ONNX.
// global_avg_pool is the mean of images over height and width.

struct MeanParams {
  std::vector<std::int64_t> axes;  ///< axes after the batch; negative numbers count from the last axis, -1
  bool keeps_axes = false;         ///< true: the averaged axes stay in y with extent 1

  template <typename Fields>
  void visit(Fields& fields) {
    fields("axes", axes);
    fields("keeps_axes", keeps_axes);
  }
};

/// Errors: failed (there are no axes; x does not have an axis; an axis occurs twice; there are more groups of axes than
/// BroadcastAxes holds).
Value mean(Graph& graph, const std::string& name, Value x, const MeanParams& params);
extern const OpType mean_op;

/// Returns the axes of `params` as non-negative numbers. Errors: failed (there are no axes; x does not have an axis; an
/// axis occurs twice).
std::vector<std::size_t> mean_axes(const MeanParams& params, const Shape& x);

enum class BroadcastFunction { multiply, add };

/// Tensors: inputs {a, b}, outputs {y}.
std::unique_ptr<Op> make_broadcast_cuda(BroadcastFunction function, const OpTensors& tensors);
/// Tensors: inputs {x}, outputs {y}. `kept`: the shape that y has if each averaged axis stays with extent 1.
std::unique_ptr<Op> make_mean_cuda(const Shape& kept, const OpTensors& tensors);

}  // namespace carillon
