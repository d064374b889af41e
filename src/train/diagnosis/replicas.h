// Replicas: checks that all ranks hold equal variables, as they must after every step.
//
// Each rank computes the CRC32C of every variable and, if ranks have their own optimiser slots, of every slot. All
// ranks compare all checksums. A difference means that memory, a link or a GPU has failed. Averaged gradients never
// remove a difference, so training would continue with it.
//
// Limitation: a fault that spreads to all ranks stays hidden. CPU ranks of one host gather each other's shards in every
// step (src/step/update/sharded_update.h). On such ranks, a fault in a rank's own shard reaches all ranks with the next
// step, and a fault in another part is overwritten.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "carillon/device/device.h"
#include "src/comm/mpi/mpi.h"
#include "src/step/tower.h"

namespace carillon {

/// Describes the first array that differs: "variable conv1/weights after step 300: rank 2 on n1 differs from the other
/// 3"; without a majority "rank 0 on n0 differs from rank 1 on n1". Empty: all are equal. `checksums`: [rank][name].
/// `hosts`: [rank].
std::string replica_difference(std::int64_t step, std::span<const std::string> names,
                               std::span<const std::vector<std::uint32_t>> checksums,
                               std::span<const std::string> hosts);

/// Compares the variables of all ranks after `step` steps. All results of steps must have been taken. Collective.
/// Errors: failed on all ranks, with the line of replica_difference.
void check_replicas(std::int64_t step, const Tower& tower, Device& device, const Mpi& mpi);

}  // namespace carillon
