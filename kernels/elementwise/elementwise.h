// elementwise: ops that compute each element independently of the other elements.
//
//   relu    y = max(x, 0); NaN stays NaN                                       dx = y > 0 ? dy : 0
//   gelu    y = x Phi(x), Phi(x) = (1 + erf(x / sqrt(2))) / 2, exact           dx = dy (Phi(x) + x phi(x))
//           (not the tanh approximation); phi(x) = exp(-x^2 / 2) / sqrt(2 pi)
//   silu    y = x sigma(x), sigma(x) = 1 / (1 + exp(-x)); also called swish    dx = dy sigma(x) (1 + x (1 - sigma(x)))
//   sigmoid        y = sigma(x)                                                dx = dy y (1 - y)
//   hard_sigmoid   y = min(max(alpha x + beta, 0), 1)                          dx = alpha dy if 0 < alpha x + beta < 1,
//                                                                              0 otherwise
//   hard_swish     y = x min(max(x / 6 + 1 / 2, 0), 1)                         dx = dy (x / 3 + 1 / 2) if -3 < x < 3,
//                                                                              0 below, dy above
//   clip           y = min(max(x, least), most); ReLU6: 0 to 6                 dx = least < y < most ? dy : 0
//   leaky_relu     y = x < 0 ? slope x : x                                     dx = y > 0 ? dy : slope dy
//   tanh           y = tanh(x)                                                 dx = dy (1 - y^2)
//   exp            y = exp(x)                                                  dx = dy y
//   sqrt           y = sqrt(x)                                                 dx = dy / (2 y); 0 if y = 0
//   reciprocal     y = 1 / x                                                   dx = -dy y^2
//   erf            y = erf(x)                                                  dx = dy 2 exp(-x^2) / sqrt(pi)
//   scale   y = factor x                                                       dx = factor dy
//   shift   y = x + amount                                                     dx = dy
//   add     y = a + b                                                          da = dy, db = dy
//
// All tensors of an op have the same shape. If the operands of `add` have different shapes, `add` makes a broadcasting
// op (kernels/broadcast). `add` writes da to the memory of dy. Each op that does not read x in backward writes dx to
// the memory of dy. gelu and silu are accurate to a relative error of 4e-7, the other functions to 1e-6, except near
// the zeros of the hard functions. In bf16, gelu is less accurate (GeluForBf16 in functions.h).
//
// Passes fuse activations into neighbouring ops (src/graph/passes.h). They fuse any activation, and also an addition,
// into batch_norm. They fuse a ReLU into max_pool, into add, and into dense and conv2d if these have biases.
//
// To add an op of one input, write its functor in functions.h, list it in ElementwiseFunction (elementwise_map.h), and
// declare its function and its OpType here.
//
// Sources: Nair, Hinton, "Rectified linear units improve restricted Boltzmann machines", 2010; Hendrycks, Gimpel,
// "Gaussian error linear units", 2016; Elfwing, Uchibe, Doya, "Sigmoid-weighted linear units for neural network
// function approximation in reinforcement learning", 2017; Howard et al., "Searching for MobileNetV3", 2019, for the
// hard functions; Maas, Hannun, Ng, "Rectifier nonlinearities improve neural network acoustic models", 2013, for
// leaky_relu; the operators of ONNX.
#pragma once

#include <limits>
#include <string>

#include "carillon/graph/graph.h"

namespace carillon {

Value relu(Graph& graph, const std::string& name, Value x);
Value gelu(Graph& graph, const std::string& name, Value x);
Value silu(Graph& graph, const std::string& name, Value x);
Value sigmoid(Graph& graph, const std::string& name, Value x);
Value hard_swish(Graph& graph, const std::string& name, Value x);
Value tanh(Graph& graph, const std::string& name, Value x);
Value exp(Graph& graph, const std::string& name, Value x);
Value sqrt(Graph& graph, const std::string& name, Value x);
Value reciprocal(Graph& graph, const std::string& name, Value x);
Value erf(Graph& graph, const std::string& name, Value x);
Value scale(Graph& graph, const std::string& name, Value x, float factor);
Value shift(Graph& graph, const std::string& name, Value x, float amount);

struct HardSigmoidParams {
  float alpha = 1.0f / 6.0f, beta = 0.5f;

  template <typename Fields>
  void visit(Fields& fields) {
    fields("alpha", alpha);
    fields("beta", beta);
  }
};
Value hard_sigmoid(Graph& graph, const std::string& name, Value x, const HardSigmoidParams& params = {});

struct ClipParams {
  float least = std::numeric_limits<float>::lowest(), most = std::numeric_limits<float>::max();

  template <typename Fields>
  void visit(Fields& fields) {
    fields("least", least);
    fields("most", most);
  }
};
/// Errors: failed (`least` is above `most`).
Value clip(Graph& graph, const std::string& name, Value x, const ClipParams& params);

struct LeakyReluParams {
  float slope = 0.01f;

  template <typename Fields>
  void visit(Fields& fields) {
    fields("slope", slope);
  }
};
/// Errors: failed (the slope is negative).
Value leaky_relu(Graph& graph, const std::string& name, Value x, const LeakyReluParams& params = {});

/// If the shapes differ, the op broadcasts (kernels/broadcast/broadcast.h), and no pass fuses it. Errors: failed (the
/// shapes cannot be broadcast).
Value add(Graph& graph, const std::string& name, Value a, Value b);
/// The attributes of scale_op.
struct ScaleParams {
  float factor = 1.0f;

  template <typename Fields>
  void visit(Fields& fields) {
    fields("factor", factor);
  }
};
/// The attributes of shift_op.
struct ShiftParams {
  float amount = 0.0f;

  template <typename Fields>
  void visit(Fields& fields) {
    fields("amount", amount);
  }
};
extern const OpType relu_op, gelu_op, silu_op, sigmoid_op, hard_sigmoid_op, hard_swish_op, clip_op, leaky_relu_op,
    tanh_op, exp_op, sqrt_op, reciprocal_op, erf_op, scale_op, shift_op, add_op;

}  // namespace carillon
