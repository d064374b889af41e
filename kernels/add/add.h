// add: where two branches of a network join.
//
//   y[i] = a[i] + b[i]        a, b, y: one shape
//   da = dy, db = dy          da in dy's own memory, db a copy
#pragma once

#include "carillon/graph/graph.h"

namespace carillon {

/// Errors: failed (a and b of different shapes).
Value add(Graph& graph, const std::string& name, Value a, Value b);

/// Tensors: inputs {a, b}, outputs {y}.
std::unique_ptr<Op> make_add_cpu(const OpContext& context, const OpTensors& tensors);
std::unique_ptr<Op> make_add_cuda(const OpContext& context, const OpTensors& tensors);

}  // namespace carillon
