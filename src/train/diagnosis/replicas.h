// Replicas: whether all ranks hold the same variables, as they must after every step.
//
// Each rank takes the CRC32C of every variable and, where ranks keep copies of their own, of every slot of the
// optimiser; all ranks compare all of them. Where they differ, memory, a link or a GPU has failed: averaged gradients
// keep such a difference for ever, and every rank trains on with it.
//
// Not seen: what has become the same on all ranks. CPUs of one host gather each other's shards with every step
// (src/step/update/sharded_update.h), so that there a fault in a rank's own shard is everyone's a step later, and any
// other is gone.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "carillon/device/device.h"
#include "src/comm/mpi/mpi.h"
#include "src/step/tower.h"

namespace carillon {

/// "variable conv1/weights after step 300: rank 2 on n1 differs from the other 3", of the first array that is not the
/// same on all ranks; without a majority "rank 0 on n0 differs from rank 1 on n1". Empty where all are. `checksums`: by
/// rank, one for each of `names`; `hosts`: by rank.
std::string replica_difference(std::int64_t step, std::span<const std::string> names,
                               std::span<const std::vector<std::uint32_t>> checksums,
                               std::span<const std::string> hosts);

/// Compares the towers' variables after `step` steps, all of whose results are taken. Collective. Errors: failed, on
/// all ranks, with that line.
void check_replicas(std::int64_t step, const Tower& tower, Device& device, const Mpi& mpi);

}  // namespace carillon
