// The ops that passes insert to add gradients (src/graph/passes.h).
//
//   fork            y_k = x, k = 0 ... readers - 1, in x's memory        dx = dy_0 + dy_1 + ..., in this order,
//                                                                        in the memory of dy_0
//   gradient_fork   y_0 = y_1 = x, in x's memory                         dx = dy_0, in its memory
//                                                                        d(second) = dy_1, in its memory
//   parameter_sum   computes nothing in forward                          dw = dw + dy_0 + dy_1 + ..., in this order
//
// gradient_fork passes a value to two readers, and passes the gradients of both readers to the op that produces the
// value. gradient_fork computes nothing. `second` is a value that is never written or read. The gradient of `second` is
// the second gradient of x.
#pragma once

#include "carillon/graph/graph.h"
#include "src/graph/passes.h"

namespace carillon {

/// Returns the op that insert_forks inserts after a value with several readers.
Graph::NewOp fork_op();
/// Returns the op that sum_gradients_in_producers inserts.
Graph::NewOp gradient_fork_op();
/// Returns the op that sum_parameter_gradients inserts.
Graph::NewOp parameter_sum_op();
/// Returns the ops that give_values_one_reader inserts.
GradientOps gradient_ops();

}  // namespace carillon
