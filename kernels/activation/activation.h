// activation: a smooth function of each element.
//
//   gelu   y = x Phi(x)        Phi(x) = (1 + erf(x / sqrt(2))) / 2, exact, not the tanh that some put in its place
//   silu   y = x sigma(x)      sigma(x) = 1 / (1 + exp(-x)); also called swish
//
//   dx = dy f'(x)              f' from x: gelu Phi(x) + x exp(-x^2 / 2) / sqrt(2 pi), silu sigma (1 + x (1 - sigma))
//
// x, y: any shape. Values are right to 4e-7 of themselves, also where they are nearly 0 (activation_math.h). Of each
// element 8 bytes are moved forward, 12 backward (float32), the least there is.
// Source: Hendrycks, Gimpel, "Gaussian error linear units", 2016; Elfwing, Uchibe, Doya, "Sigmoid-weighted linear units
// for neural network function approximation in reinforcement learning", 2017.
//
// Another one is a function object (activation_math.h), a line in ActivationKind, activation_named and with_activation,
// and its function here. A batch norm before it takes it over (kernels/batch_norm).
#pragma once

#include "carillon/graph/graph.h"

namespace carillon {

Value gelu(Graph& graph, const std::string& name, Value x);
Value silu(Graph& graph, const std::string& name, Value x);

enum class ActivationKind {
  none,  ///< of other ops: y = x
  relu,  ///< of other ops (kernels/relu)
  gelu,
  silu,
};

/// By the type of the op, "gelu"; none: no activation is called so.
ActivationKind activation_named(std::string_view type);

/// Tensors: inputs {x}, outputs {y}.
std::unique_ptr<Op> make_activation_cpu(ActivationKind kind, const OpContext& context, const OpTensors& tensors);
std::unique_ptr<Op> make_activation_cuda(ActivationKind kind, const OpContext& context, const OpTensors& tensors);

}  // namespace carillon
