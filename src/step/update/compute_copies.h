// Creates and refreshes the compute copies of parameters on a GPU.
#pragma once

#include <vector>

#include "carillon/graph/graph.h"

namespace carillon {

/// A compute copy of each parameter of the graph, in the format that its op reads. Zeroed. Empty on a CPU, and if no op
/// reads one.
std::vector<ComputeCopy> make_compute_copies(const Graph& graph, Device& device);

/// Enqueues the conversion of the parameters' present values. Required after every change that is not an update.
void refresh_compute_copies(const ParameterStore& parameters, Device& device);

}  // namespace carillon
