// Audit: a step in which every rank's gradients are computed again by another rank, from the same batch, and compared
// bit for bit. On CPUs.
//
//   each rank sends its batch to its auditor -> computes the gradients of the batch that it received
//   -> takes the step with its own batch -> the ranks compare the checksums of all gradients
//
// A difference means that a processor or a memory has failed: in variables, activations, gradients or in the
// arithmetic. The auditor is the next rank whose kernels round in the same way (equal instruction set and number of
// threads). A rank without such a rank is its own auditor, and only finds errors that do not repeat.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/comm/mpi/mpi.h"
#include "src/step/tower.h"

namespace carillon {

/// [rank] The rank whose batch it audits: the rank before it among those with equal `kernels`, in a circle. `kernels`:
/// by rank, what determines the rounding.
std::vector<int> audited_ranks(std::span<const std::string> kernels);

/// The text of a failed audit; empty: all gradients are equal. `taken`, `audited`: by rank, the checksums of its own
/// step, and those that it computed for audited[rank]. `places`: by rank, "rank 2 on n1".
std::string audit_difference(std::int64_t step, std::span<const std::string> variables,
                             std::span<const GradientChecksums> taken, std::span<const GradientChecksums> computed,
                             std::span<const int> audited, std::span<const std::string> places);

class Audit {
 public:
  /// `device`: the tower's, a CPU. The references outlive this. Collective.
  Audit(Tower& tower, Device& device, const Mpi& mpi);

  /// Tower::step with an audit. Collective. Errors: as Tower::step; failed on all ranks, with the text of
  /// audit_difference. The step is then taken.
  void step(TowerStep step);

 private:
  Tower& tower_;
  const Mpi& mpi_;
  std::vector<int> audited_;  ///< [rank]
  int auditor_;
};

}  // namespace carillon
