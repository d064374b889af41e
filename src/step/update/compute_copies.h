// The parameters' compute copies of a tower on a GPU.
#pragma once

#include <vector>

#include "carillon/graph/graph.h"

namespace carillon {

/// Of each of the graph's parameters, in the form that its op reads; none on a CPU. Zeroed.
std::vector<ComputeCopy> make_compute_copies(const Graph& graph, Device& device);

/// Enqueues the compute copies of the parameters' present values: after anybody but the update has written those.
void refresh_compute_copies(const ParameterStore& parameters, Device& device);

}  // namespace carillon
