// Checks that a batch fits the memory of this host before anything is allocated for it.
#pragma once

#include <cstdint>
#include <string>

#include "carillon/device/device.h"
#include "carillon/models/network.h"

namespace carillon {

/// The batches of BuildSettings::batch_size samples that a rank has in memory at a time.
struct BatchInMemory {
  std::string option;        ///< the option that sets the size, with its value: "--batch-size 128"
  std::int64_t at_once = 0;  ///< micro-batches, one per thread; 0: one batch
};

/// Bytes of the activations and, in training, their gradients on a CPU. `at_once`: as BatchInMemory::at_once.
std::size_t activation_bytes(const BuiltNetwork& built, const Device& device, std::int64_t at_once = 0);

/// `built`: with a loss for training, else for evaluation. `ranks`: those of this host. Errors: usage, naming the
/// option, if the activations of these ranks, on a CPU, take more than all memory of the host.
void check_batch_fits(const BuiltNetwork& built, const Device& device, int ranks, const BatchInMemory& batch);

}  // namespace carillon
