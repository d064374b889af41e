// The parameters' shadows of a tower on a GPU.
#pragma once

#include <vector>

#include "carillon/graph/graph.h"

namespace carillon {

/// Of each of the graph's parameters, in the form that its op reads; none on a CPU. Zeroed.
std::vector<Shadow> make_shadows(const Graph& graph, Device& device);

/// Enqueues the shadows of the parameters' present values: after anybody but the update has written those.
void refresh_shadows(const ParameterStore& parameters, Device& device);

}  // namespace carillon
