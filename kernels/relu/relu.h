// relu: y = max(x, 0), element by element; a NaN stays one.
//
//   y[i] = x[i] < 0 ? 0 : x[i]
//   dx[i] = y[i] > 0 ? dy[i] : 0         in place of dy
//
// x, y: any shape. batch_norm, max_pool, and with biases dense and conv2d take a ReLU over from their neighbour
// (src/graph/passes.h). Source: Nair, Hinton, "Rectified linear units improve restricted Boltzmann machines", 2010.
#pragma once

#include "carillon/graph/graph.h"

namespace carillon {

Value relu(Graph& graph, const std::string& name, Value x);

/// Tensors: inputs {x}, outputs {y}.
std::unique_ptr<Op> make_relu_cpu(const OpContext& context, const OpTensors& tensors);
std::unique_ptr<Op> make_relu_cuda(const OpContext& context, const OpTensors& tensors);

}  // namespace carillon
