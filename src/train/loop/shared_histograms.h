// Shared histograms: those of the parameters, counted by two ranks.
#pragma once

#include <optional>

#include "carillon/graph/parameters.h"
#include "src/comm/mpi/mpi.h"
#include "src/report/parameter_histograms.h"

namespace carillon {

/// The parameters' histograms, on rank 0, which would keep the others waiting for both halves of them: the second rank
/// of its host, if there is one, takes the variables', since these are equal on all. Collective.
std::optional<ParameterHistograms> shared_histograms(const ParameterStore& parameters, Device& device, const Mpi& mpi);

}  // namespace carillon
