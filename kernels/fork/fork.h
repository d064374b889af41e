// fork: one value for several readers, each with a gradient of its own. A pass puts it in (src/graph/passes.h).
//
//   y_k = x                     in x's own memory, k = 0 ... readers - 1
//   dx = dy_0 + dy_1 + ...      in dy_0's memory, added in this order
//
// x, y_k: one shape, any.
#pragma once

#include "carillon/graph/graph.h"

namespace carillon {

/// A fork for insert_forks, which sets its name and its input.
Graph::NewOp fork_op();

/// Tensors: inputs {x}, outputs {y_0, y_1, ...}.
std::unique_ptr<Op> make_fork_cpu(const OpContext& context, const OpTensors& tensors);
std::unique_ptr<Op> make_fork_cuda(const OpContext& context, const OpTensors& tensors);

}  // namespace carillon
