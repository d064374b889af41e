// gradient_fork: gives two readers the same value, and gives their gradients to the op that produces the value.
//
//   y_0 = y_1 = x, in x's memory        dx = dy_0, in its memory      d(second) = dy_1, in its memory
//
// It computes nothing. `second` is a value that is never written or read. Its gradient is the second gradient of x.
#pragma once

#include "carillon/graph/graph.h"

namespace carillon {

/// The op that sum_gradients_in_producers (src/graph/gradient_passes.h) inserts.
Graph::NewOp gradient_fork_op();

}  // namespace carillon
