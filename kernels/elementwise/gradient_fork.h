// gradient_fork: passes a value to two readers, and passes the gradients of both readers to the op that produces the
// value.
//
//   y_0 = y_1 = x, in x's memory        dx = dy_0, in its memory      d(second) = dy_1, in its memory
//
// The op computes nothing. `second` is a value that is never written or read. The gradient of `second` is the second
// gradient of x.
#pragma once

#include "carillon/graph/graph.h"
#include "src/graph/gradient_passes.h"

namespace carillon {

/// The op that sum_gradients_in_producers (src/graph/gradient_passes.h) inserts.
Graph::NewOp gradient_fork_op();
/// The ops of give_values_one_reader.
GradientOps gradient_ops();

}  // namespace carillon
