// elementwise: ops that compute each element alone.
//
//   relu    y = max(x, 0); NaN stays NaN                                       dx = y > 0 ? dy : 0
//   gelu    y = x Phi(x), Phi(x) = (1 + erf(x / sqrt(2))) / 2, exact           dx = dy (Phi(x) + x phi(x))
//           (not the tanh approximation); phi(x) = exp(-x^2 / 2) / sqrt(2 pi)
//   silu    y = x sigma(x), sigma(x) = 1 / (1 + exp(-x)); also called swish    dx = dy sigma(x) (1 + x (1 - sigma(x)))
//   scale   y = factor x                                                       dx = factor dy
//   add     y = a + b                                                          da = dy, db = dy
//   fork    y_k = x, k = 0 ... readers - 1, in x's memory                      dx = dy_0 + dy_1 + ..., in this order
//   parameter_sum   computes nothing in forward                                dw = dw + dy_0 + dy_1 + ..., in order
//
// All tensors of an op have one shape; with operands of other shapes, `add` is the op broadcast. relu, scale, add (da)
// and fork write dx to the memory of dy. gelu and silu are accurate to a relative error of 4e-7. In bf16, gelu is less
// accurate (GeluForBf16 in functions.h).
//
// Other ops take over activations from their neighbours (src/graph/passes.h). batch_norm takes over any activation, and
// also an addition. dense and conv2d with biases, max_pool and add take over a ReLU.
//
// To add an op of one input, write its functor in functions.h, list it in ElementwiseFunction (elementwise_map.h), and
// declare its function and its OpType here.
//
// Sources: Nair, Hinton, "Rectified linear units improve restricted Boltzmann machines", 2010; Hendrycks, Gimpel,
// "Gaussian error linear units", 2016; Elfwing, Uchibe, Doya, "Sigmoid-weighted linear units for neural network
// function approximation in reinforcement learning", 2017.
#pragma once

#include <string>

#include "carillon/graph/graph.h"

namespace carillon {

Value relu(Graph& graph, const std::string& name, Value x);
Value gelu(Graph& graph, const std::string& name, Value x);
Value silu(Graph& graph, const std::string& name, Value x);
Value scale(Graph& graph, const std::string& name, Value x, float factor);
/// If the shapes differ, the op broadcasts (kernels/broadcast/broadcast.h), and no pass fuses it. Errors: failed (the
/// shapes cannot be broadcast).
Value add(Graph& graph, const std::string& name, Value a, Value b);
/// The attributes of scale_op; the other ops have none.
struct ScaleParams {
  float factor = 1.0f;

  template <typename Fields>
  void visit(Fields& fields) {
    fields("factor", factor);
  }
};
extern const OpType relu_op, gelu_op, silu_op, scale_op, add_op;

/// The op that insert_forks (src/graph/gradient_passes.h) inserts after a value with several readers.
Graph::NewOp fork_op();
/// The op that sum_parameter_gradients inserts.
Graph::NewOp parameter_sum_op();

}  // namespace carillon
