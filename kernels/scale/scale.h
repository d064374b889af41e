// scale: a constant times a value, as of logits whose size a recipe fixes.
//
//   y[i] = factor * x[i]
//   dx[i] = factor * dy[i]        in place of dy
//
// x, y: any shape.
#pragma once

#include "carillon/graph/graph.h"

namespace carillon {

Value scale(Graph& graph, const std::string& name, Value x, float factor);

/// Tensors: inputs {x}, outputs {y}.
std::unique_ptr<Op> make_scale_cpu(float factor, const OpContext& context, const OpTensors& tensors);
std::unique_ptr<Op> make_scale_cuda(float factor, const OpContext& context, const OpTensors& tensors);

}  // namespace carillon
