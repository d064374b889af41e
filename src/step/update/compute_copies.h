// Creates and refreshes the compute copies of parameters on a GPU.
#pragma once

#include <vector>

#include "carillon/graph/graph.h"

namespace carillon {

/// A compute copy of each parameter of the graph, in the format that its op reads. The copies are zeroed. Returns an
/// empty list on a CPU, and if no op reads a compute copy.
std::vector<ComputeCopy> make_compute_copies(const Graph& graph, Device& device);

/// Enqueues the conversion of the parameters' present values to their compute copies. Required after every change of
/// parameters except updates, which also write the copies.
void refresh_compute_copies(const ParameterStore& parameters, Device& device);

}  // namespace carillon
