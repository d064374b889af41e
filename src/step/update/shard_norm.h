// ShardNorm: the norm of a step's gradient for ranks that share a host's memory, for --clip-norm.
//
//   every rank   means of its blocks -> sums of squares -> publish -> (the ranks meet) -> sum over the blocks of all
//   ranks
//
// The blocks are those of the whole flat array (GradientNorm), not those of the shards, so the norm has the same bits
// at any number of ranks. A rank's blocks do not coincide with its shard.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "src/comm/allreduce/shared_host_memory.h"
#include "src/optim/norms.h"

namespace carillon {

class ShardNorm {
 public:
  /// Bytes that each rank needs to publish its sums, a multiple of 64. `count`: elements of the flat arrays.
  static std::size_t bytes(std::size_t count);

  /// `own`: where this rank publishes its sums, in an own array of `memory`, at the same offset on all ranks. `norm` is
  /// made from `parameters`. `parameters` and `memory` outlive this.
  ShardNorm(GradientNorm norm, const ParameterStore& parameters, SharedHostMemory& memory, std::byte* own);

  /// The norm of the mean gradient. `are_means`: the gradients of this rank's store are means; else those of each rank
  /// are its own. All gradients must be complete on all ranks. Collective.
  ClippedNorm find(bool are_means);

 private:
  /// The elements of a rank's blocks.
  Slice elements_of(int rank) const;
  std::span<double> published(int rank) const;

  GradientNorm norm_;
  const ParameterStore& parameters_;
  SharedHostMemory& memory_;
  std::byte* own_;
  std::vector<double> square_sums_;  ///< [block]
};

}  // namespace carillon
