// Whether a batch can fit this host's memory, told before anything is allocated for it.
#pragma once

#include <cstdint>

#include "carillon/comm/mpi.h"
#include "carillon/device/device.h"
#include "carillon/models/network.h"

namespace carillon {

/// Errors: usage, naming --batch-size, which a part of --global-batch is, or --micro-batch, where the activations of
/// this host's ranks, on a CPU, take more than all its memory. `at_once`: micro-batches of build.batch_size, each one
/// thread's; 0: one batch.
void check_batch_fits(const Network& network, const BuildSettings& build, const Device& device, const Mpi& mpi,
                      std::int64_t at_once = 0);

}  // namespace carillon
