// Shared histograms: two ranks compute the histograms of the parameters.
#pragma once

#include <optional>

#include "carillon/graph/parameters.h"
#include "src/comm/mpi/mpi.h"
#include "src/report/histogram.h"

namespace carillon {

/// The parameters' histograms on rank 0. If rank 0's host has a second rank, that rank computes those of the variables,
/// which are equal on all ranks, so that the other ranks wait half as long. Collective.
std::optional<ParameterHistograms> shared_histograms(const ParameterStore& parameters, Device& device, const Mpi& mpi);

}  // namespace carillon
