// Whether a batch can fit this host's memory, told before anything is allocated for it.
#pragma once

#include <cstdint>
#include <string>

#include "carillon/device/device.h"
#include "carillon/models/network.h"
#include "src/comm/mpi/mpi.h"

namespace carillon {

/// What a tower takes at once: batches of BuildSettings::batch_size.
struct BatchInMemory {
  std::string option;        ///< that made it so large, with its value: "--batch-size 128"
  std::int64_t at_once = 0;  ///< micro-batches, each one thread's; 0: one batch
};

/// `built`: with a loss for training, else for evaluation. Errors: usage, naming the option, if the activations of this
/// host's ranks, on a CPU, take more than all its memory.
void check_batch_fits(const BuiltNetwork& built, const Device& device, const Mpi& mpi, const BatchInMemory& batch);

}  // namespace carillon
