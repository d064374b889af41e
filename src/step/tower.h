// Tower: one rank's replica of the network, and the synchronous training step.
//
// A step computes the gradients (GradientSource: forward and backward pass), averages them over the ranks and updates
// the variables (UpdateStrategy). The StepDriver chooses when these parts run, and in which order. All replicas start
// from rank 0's variables and apply the same averaged gradients, so they stay equal bit for bit.
//
// With micro-batches, the communicator must average in a binary tree (averaging_of).
//
// On a CPU the backward pass ends at the first op with a variable that the step trains (ParameterGroup). Gradients
// before that op are not computed and are 0. On a GPU, where steps are captured, every step computes all gradients.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "carillon/models/network.h"
#include "src/checkpoint/checkpoint.h"
#include "src/comm/allreduce/communicator.h"
#include "src/optim/optimizer.h"
#include "src/step/drivers/driver.h"
#include "src/step/gradients/gradient_source.h"
#include "src/step/input/input_stage.h"
#include "src/step/tensor_io.h"
#include "src/step/update/update_strategy.h"

namespace carillon {

class CommunicatorLink;

struct TowerSettings {
  std::int64_t batch_size = 1;
  std::int64_t micro_batch = 0;  ///< samples per micro-batch; 0: the batch is not divided
  Arithmetic arithmetic = Arithmetic::fp32;
  OptimizerSettings optimizer = {};
  std::size_t bucket_bytes = 0;      ///< bytes per bucket of gradients (`requested` of bucket_bytes_on)
  Wire wire = Wire::fp32;            ///< number format of gradients between hosts (CPUs)
  const Dataset* dataset = nullptr;  ///< the training set, so that a GPU can keep it; null: unknown; outlives the tower
  bool capture = true;               ///< replay captured steps, if the device can do this
  MakeUpdateStrategy make_update = make_update_strategy;
};

/// Returns the kind of averaging that the communicator of `ranks` ranks must use with these settings.
Averaging averaging_of(const TowerSettings& settings, int ranks);

/// [variable] CRC32C of the variable's gradient; 0: the step does not train the variable.
using GradientChecksums = std::vector<std::uint32_t>;

class Tower {
 public:
  /// `device` and `communicator` outlive the tower. Collective.
  Tower(const Network& network, const Task& task, const TowerSettings& settings, Device& device,
        Communicator& communicator);
  Tower(const Tower&) = delete;
  Tower& operator=(const Tower&) = delete;
  ~Tower();

  // Before the first step, call one of the next four functions on rank 0, and then broadcast_from_first on all ranks.
  // Do not call these five functions after a step: other ranks may still read this rank's values. Errors: failed (a
  // rank other than rank 0 calls the function, and the ranks do not replicate the slots).
  /// Draws the variables from `seed`, except variables with `given` values. Slots get their initial values. Buffers get
  /// their `given` values or, if there are none, their initial values. Errors: failed (`given` names an unknown
  /// variable or buffer, or has the wrong number of elements).
  void initialize(std::uint64_t seed, const std::vector<GivenValues>& given = {});
  /// Replaces the values of some variables and buffers. Slots get their initial values. Errors: as initialize.
  void replace(const std::vector<GivenValues>& given);
  /// Loads all arrays of a checkpoint: variables, slots, buffers and their slow copies. Errors: data (the checkpoint
  /// belongs to another network or optimiser; the message names the file, and the array that is missing, is unknown or
  /// has another shape).
  void restore(const LoadedCheckpoint& checkpoint);
  /// Loads a checkpoint's variables and buffers. Slots get their initial values. Errors: as restore.
  void initialize_from(const LoadedCheckpoint& checkpoint);
  /// Copies rank 0's variables, slots and buffers to all ranks. Collective.
  void broadcast_from_first();

  /// Takes one training step. On return the step is complete or enqueued (StepDriver). If the loss is not finite, the
  /// step's result reports this, and the step changes no variables and no slots. Collective.
  void step(StepRequest request);
  /// Resets `checksums`. Returns a function for StepRequest::gradient_complete, which stores the checksum of a
  /// variable's gradient when this gradient is complete on this rank. CPU only. `checksums` outlives the step.
  std::function<void(int variable)> storing_in(GradientChecksums& checksums) const;
  /// Computes the gradients of a batch as step number `step` would, and returns their checksums. CPU only. Call it
  /// between two steps. Overwrites this rank's gradients and step sums, but not its variables and buffers. The batch
  /// must stay valid until the call returns. `batches`: on rank r, `batch` is the batch of rank batches[r]. Requires
  /// that all ranks have completed the previous step (a barrier). Collective. Errors: failed (the device is a GPU).
  GradientChecksums gradient_checksums(std::int64_t step, const Batch& batch, const std::vector<int>& batches);
  /// See InputStage::keeps_records.
  bool keeps_records() const { return input_stage_->keeps_records(); }
  /// See StepDriver::next_result.
  std::optional<StepResult> next_result(Results wanted) { return driver_->next_result(wanted); }
  /// See StepDriver::captured_nodes.
  const std::vector<std::string>& captured_nodes() const { return driver_->captured_nodes(); }

  /// Launches all enqueued steps. Afterwards each buffer is equal on all ranks (BufferSpec::across_ranks) and the slots
  /// are readable. Required before save() and evaluations. Collective.
  void synchronize_buffers();
  /// This rank's own buffers and their slow copies. synchronize_buffers() replaces these buffers by the means over the
  /// ranks or by rank 0's buffers (BufferSpec::across_ranks).
  struct RankBuffers {
    std::vector<NamedArray> values, slow;
    bool are_synchronized = false;
  };
  /// Launches all enqueued steps, and then copies the buffers. Returns an empty result if synchronize_buffers() would
  /// not change any buffer.
  RankBuffers rank_buffers();
  /// Undoes synchronize_buffers(). Not allowed if a step was taken after the call of rank_buffers().
  void restore(const RankBuffers& own);
  /// Adds the network's description, variables, slots and buffers to `state`. Requires synchronize_buffers(). One rank
  /// alone may call it.
  void save(CheckpointState& state) const;
  /// CPU only: returns true if this rank alone can save the last completed step, without synchronize_buffers(). Returns
  /// false while an update runs, and after an update was interrupted. A thread other than the thread of step() must
  /// call stop_updates() before it calls this function.
  bool holds_whole_step() const { return device_.kind() == DeviceKind::cpu && update_->holds_whole_step(); }
  /// Does the same as save(), but saves the last completed step even if the next step was interrupted. Requires
  /// holds_whole_step(). Saves this rank's own buffers, unless the steps average the buffers over the ranks. Errors:
  /// failed (another rank of the host began the next update meanwhile).
  void save_whole_step(CheckpointState& state) const;
  /// Prevents all further updates, so that the calling thread can call save_whole_step(). Any thread may call it.
  /// Returns false if the rank is in an update. After the call, step() blocks for ever.
  bool stop_updates() { return gate_.stop(); }
  /// Returns the number of calls of step() that have returned. On a CPU those steps are complete, and save_whole_step()
  /// saves the last one.
  std::int64_t completed_steps() const { return completed_steps_; }

  const Network& network() const { return network_; }
  const Task& task() const { return task_; }
  const Graph& graph() const { return built_.graph; }
  // The functions below return the state after the launched steps. To launch all enqueued steps, call
  // synchronize_buffers().
  const ParameterStore& parameters() const { return update_->parameters(); }
  const BufferStore& buffers() const { return buffers_; }
  /// True if step `step` trains the variable; the variable's group decides this.
  bool trains(int variable, std::int64_t step) const {
    return trained_steps_[static_cast<std::size_t>(variable)].contain(step);
  }
  /// Returns the optimiser's slots, in the order of UpdateStrategy::slot.
  const std::vector<Slot>& slots() const { return slots_; }
  /// See UpdateStrategy::slot.
  std::span<float> slot(int slot) const { return update_->slot(slot); }
  /// Returns the slot of the moving averages or, if there are none, the variables. Both are in device memory, in the
  /// layout of parameters().
  std::span<float> moving_averages() const;
  /// See UpdateStrategy::replicates_slots.
  bool replicates_slots() const { return update_->replicates_slots(); }
  /// Returns the link that connects ops of this rank with the same ops on other ranks. Returns null if no op
  /// communicates.
  TowerLink* link() const;
  /// Returns the number of floats that `save` adds to a checkpoint.
  std::size_t saved_floats() const;
  /// See GradientSource::activation_bytes.
  std::size_t activation_bytes() const { return source_->activation_bytes(); }

 private:
  /// From step `step` on, each step computes only the gradients that it needs.
  void compute_gradients_for(std::int64_t step);
  /// Checks that this rank may write the slots. Errors: failed (this rank may not write the slots).
  void check_may_write_slots() const;
  /// Sets slots and slow copies to their initial values, which depend on the current variables and buffers.
  void begin_slots();
  /// Returns the arrays of a slot for a checkpoint. The arrays of the lookahead slot include `slow`, the slow copies of
  /// the buffers.
  std::vector<NamedTensor> saved_slot(std::size_t slot, const BufferStore& slow) const;
  void save_arrays(const BufferStore& buffers, const BufferStore& slow, CheckpointState& state) const;
  /// On a CPU: enters the update gate, and copies the buffers before the next forward pass changes them.
  void copy_completed_buffers();

  Device& device_;
  Communicator& communicator_;
  OptimizerSettings optimizer_settings_;
  std::vector<Slot> slots_;
  Network network_;
  Task task_;
  BuiltNetwork built_;
  InputStageSpec input_stage_spec_;
  std::unique_ptr<InputStage> input_stage_;
  BufferStore buffers_;
  BufferLookahead buffer_lookahead_;
  BufferStore completed_buffers_, completed_slow_;  ///< on a CPU: copies that were made after the last completed step
  UpdateGate gate_;
  std::int64_t completed_steps_ = 0;
  std::unique_ptr<CommunicatorLink> link_;
  std::unique_ptr<UpdateStrategy> update_;
  std::unique_ptr<GradientSource> source_;
  std::vector<TrainedSteps> trained_steps_;  ///< [variable]
  std::vector<bool> trains_;                 ///< [variable] true: the previous step trained the variable; initially
                                             ///< true
  TrainingStep step_;
  bool buffers_are_synchronized_ = false;  ///< true: the buffers were synchronised after the last step
  std::unique_ptr<StepDriver> driver_;     ///< the last member, so that it is destroyed first: enqueued steps use all
                                           ///< members above
};

}  // namespace carillon
