// Checks that the ranks agree: check_replicas compares their variables, and an Audit computes their gradients twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "carillon/device/device.h"
#include "src/comm/mpi/mpi.h"
#include "src/step/tower.h"

namespace carillon {

// Replicas: all ranks must hold equal variables after every step.
//
// Each rank computes the CRC32C of every variable. If ranks have their own optimiser slots, each rank also computes the
// CRC32C of every slot. All ranks compare all checksums. A difference means that memory, a link or a GPU has failed.
// Averaged gradients never remove a difference, so the training would continue with different variables on the ranks.
//
// Limitation: a fault that spreads to all ranks stays hidden. CPU ranks of one host gather each other's shards in every
// step (src/step/update/sharded_update.h). On such ranks, a fault in a rank's own shard spreads to all ranks in the
// next step. A fault in another part of the variables is overwritten.

/// Describes the first array that differs: "variable conv1/weights after step 300: rank 2 on n1 differs from the other
/// 3"; or, without a majority, "rank 0 on n0 differs from rank 1 on n1". Returns an empty text if all checksums are
/// equal. `checksums`: [rank][name]. `hosts`: [rank].
std::string replica_difference(std::int64_t step, std::span<const std::string> names,
                               std::span<const std::vector<std::uint32_t>> checksums,
                               std::span<const std::string> hosts);

/// Compares the variables of all ranks after `step` steps. The caller must have taken the results of all steps
/// (Tower::next_result). Collective. Errors: failed on all ranks (the message is the text of replica_difference).
void check_replicas(std::int64_t step, const Tower& tower, Device& device, const Mpi& mpi);

// Audit: a step in which each rank's gradients are computed a second time, by another rank and from the same batch.
// Then the ranks compare checksums. CPU only.
//
//   each rank sends its batch to its auditor -> computes the gradients of the batch that it received
//   -> takes the step with its own batch -> the ranks compare the checksums of all gradients
//
// A difference means an error in memory (variables, activations, gradients), an arithmetic error, or a bug. The auditor
// of a rank is the next rank that rounds in the same way. Two ranks round in the same way if they have the same
// instruction set and the same number of threads. A rank without such a partner audits itself, and finds only errors
// that do not repeat.

/// Returns, for each rank, the rank that it audits: the previous rank with the same key, cyclically. A rank without
/// another rank of the same key audits itself. `rounding_keys`: [rank] instruction set and number of threads.
std::vector<int> audited_ranks(std::span<const std::string> rounding_keys);

/// Returns the text of a failed audit, or an empty text if all gradients are equal. `in_step`: [rank] checksums of the
/// rank's own step. `in_audit`: [rank] checksums of the gradients that the rank computed from the batch of rank
/// audited[rank]. `audited`: the result of audited_ranks. `rank_names`: [rank] "rank 2 on n1".
std::string audit_difference(std::int64_t step, std::span<const std::string> variables,
                             std::span<const GradientChecksums> in_step, std::span<const GradientChecksums> in_audit,
                             std::span<const int> audited, std::span<const std::string> rank_names);

class Audit {
 public:
  /// `device`: the tower's device, a CPU. `heartbeat`: called between the two passes of a step. The referenced objects
  /// outlive this object. Collective.
  Audit(
      Tower& tower, Device& device, const Mpi& mpi, std::function<void()> heartbeat = [] {});

  /// Runs Tower::step with an audit. Collective. Errors: see Tower::step; failed on all ranks (the audit fails; the
  /// message is the text of audit_difference). When an audit fails, the variables have already been updated.
  void step(StepRequest request);

 private:
  Tower& tower_;
  const Mpi& mpi_;
  std::function<void()> heartbeat_;
  std::vector<std::string> variables_;
  std::vector<std::string> rank_names_;
  std::vector<int> audited_;  ///< [rank]
  int auditor_;               ///< number of the rank that audits this rank
};

}  // namespace carillon
