// ShardedUpdate: the UpdateStrategy of CPUs that share a host's memory. The ranks share one copy of the slots; each
// rank averages the gradients of its shard and updates it.
//
//   several ranks   backward -> barrier -> own shard, block by block: mean gradients, update -> barrier
//                   (the lowest rank also updates the shards of ended ranks) -> copy the variables' other shards
//   one rank        backward of an op -> update of its parameters
//
// With --clip-norm, several ranks first find the norm of the mean gradient (ShardNorm). Therefore each rank averages
// twice: first the gradients of its norm blocks, then the gradients of its shard. With --clip-norm, a run with one rank
// updates all variables after the backward pass.
//
// A rank reads each gradient of its shard once from every rank. The rank does not store the means. It computes the
// means of a block in the cache, and immediately updates the variables and the slots of this block. The result is the
// same, bit for bit, as if the ranks first averaged all gradients and then updated all variables. If the mean gradients
// must be readable, the ranks all-reduce them first.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "src/comm/allreduce/shared_host_memory.h"
#include "src/optim/optimizer.h"
#include "src/optim/update_factors.h"
#include "src/step/gradients/reducer.h"
#include "src/step/update/shard_log.h"
#include "src/step/update/update_strategy.h"

namespace carillon {

/// Computes the norm of a step's gradient for --clip-norm, for ranks that share a host's memory.
///
///   every rank   means of the gradients in its blocks -> sum of the squared means of each block -> publish the sums
///                -> (the ranks meet) -> add the sums of the blocks of all ranks; the norm is the square root
///
/// The blocks divide the whole flat array (GradientNorm) and do not depend on the shards, so the norm has the same bits
/// at any number of ranks. A rank's norm blocks and its shard contain different elements.
class ShardNorm {
 public:
  /// Bytes that each rank needs to publish its sums, a multiple of 64. `count`: elements of the flat arrays.
  static std::size_t bytes(std::size_t count);

  /// `own`: the address to which this rank writes its sums. The address is in an own array of `memory`, at the same
  /// offset on all ranks. `norm` must be made from `parameters`. `parameters` and `memory` outlive this object.
  ShardNorm(GradientNorm norm, const ParameterStore& parameters, SharedHostMemory& memory, std::byte* own);

  /// Computes the norm of the mean gradient. `are_means`: true if the gradients in this rank's store are means; false
  /// if each rank's store has the rank's own gradients. All gradients must be complete on all ranks. Collective.
  ClippedNorm find(bool are_means);

 private:
  /// Returns the elements of a rank's blocks.
  Slice elements_of(int rank) const;
  std::span<double> published(int rank) const;

  GradientNorm norm_;
  const ParameterStore& parameters_;
  SharedHostMemory& memory_;
  std::byte* own_;
  std::vector<double> square_sums_;  ///< [block] sum of the squared mean gradients of the block
};

class ShardedUpdate final : public UpdateStrategy {
 public:
  /// Errors: failed (the communicator has no shared host memory; the rule is not elementwise).
  explicit ShardedUpdate(const UpdateContext& context);

  const ParameterStore& parameters() const override { return parameters_; }
  std::span<float> slot(int slot) const override { return parameters_.slot(slot); }
  bool replicates_slots() const override { return false; }
  void broadcast_from_first() override;

  void begin_step(MeanGradients gradients) override;
  void acquire(Stream& stream) override;
  void gradient_complete(int parameter, Stream& stream) override;
  void enqueue_means() override;
  const StepEnd& step_end() const override { return end_; }
  void enqueue_update() override;
  std::optional<double> gradient_norm() const override;
  bool holds_whole_step() const override { return !is_updating_ && !(log_ && log_->another_rank_is_ahead()); }

 private:
  /// With MeanGradients::update_only and several ranks: averages the step sums and the gradients of this rank's shard,
  /// and updates the variables of this shard.
  void average_and_update();
  /// With --clip-norm and several ranks: if the step updates the variables, computes the norm of the gradient. Call it
  /// after a barrier.
  void clip();
  /// For several ranks: if `allowed` is true, updates this rank's shard and copies the other shards. Call it after a
  /// barrier.
  void update_together(bool allowed);
  /// Updates the blocks of the owner's shard that are not yet updated.
  void update_shard(int owner);

  Device& device_;
  Communicator& communicator_;
  SharedHostMemory& memory_;
  bool one_rank_;
  ParameterStore parameters_;
  Reducer reducer_;  ///< if the gradients are MeanGradients::readable, all-reduces them
  std::unique_ptr<ElementwiseOptimizer> optimizer_;
  std::optional<ShardLog> log_;  ///< exists only if there are several ranks
  StepEnd end_;
  bool clips_;
  std::optional<ShardNorm> norm_;  ///< exists only with --clip-norm and if there are several ranks
  ClippedNorm clipped_;            ///< norm of the last step, if `norm_` exists
  MeanGradients gradients_ = MeanGradients::readable;
  std::vector<float> sums_;      ///< the means of the step sums
  std::optional<bool> allowed_;  ///< only for one rank: whether this step's loss is finite; nullopt: not yet known
  UpdateGate* gate_;
  bool is_updating_ = false;
};

}  // namespace carillon
