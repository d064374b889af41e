// Whether a batch can fit this host's memory, told before anything is allocated for it.
#pragma once

#include "carillon/comm/mpi.h"
#include "carillon/device/device.h"
#include "carillon/models/network.h"

namespace carillon {

/// Errors: usage, naming --batch-size, where the activations of this host's ranks, on a CPU, take more than all its
/// memory.
void check_batch_fits(const Network& network, const BuildSettings& build, const Device& device, const Mpi& mpi);

}  // namespace carillon
