// Tower: one rank's replica of the network, and the synchronous training step.
//
// step: forward, backward with the averaging of gradients beside it, update. Every tower starts from rank 0's variables
// and applies the same averaged gradients, so the replicas stay equal bit for bit. Towers with memory in common
// (SharedHostMemory) have the slots there, once for all of them; each updates its shard and gathers the others'
// variables.
//
// With micro-batches the communicator's means are trees of them: averaging_of.
//
// On a CPU a step goes back no further than to the first op with a variable that it trains (ParameterGroup): what lies
// before has no gradients, which count as 0. On a GPU, whose steps are captured, all gradients are computed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "carillon/models/network.h"
#include "src/checkpoint/checkpoint.h"
#include "src/comm/allreduce/communicator.h"
#include "src/graph/executable.h"
#include "src/optim/optimizer.h"
#include "src/step/drivers/driver.h"
#include "src/step/gradients/micro_batches.h"
#include "src/step/gradients/reducer.h"
#include "src/step/input/input_stage.h"
#include "src/step/tensor_io.h"
#include "src/step/training_step.h"
#include "src/step/update/sharded_update.h"

namespace carillon {

struct TowerSettings {
  std::int64_t batch_size = 1;
  std::int64_t micro_batch = 0;  ///< samples; 0: the batch is taken whole
  Arithmetic arithmetic = Arithmetic::fp32;
  OptimizerSettings optimizer = {};
  std::size_t bucket_bytes = 0;      ///< as bucket_bytes_on
  Wire wire = Wire::fp32;            ///< of gradients between hosts
  const Dataset* dataset = nullptr;  ///< whose records the steps take, if it is known; outlives the tower
  bool capture = true;               ///< replay captured steps where the device can
};

/// How the communicator of `towers` towers with these settings is to average.
Averaging averaging_of(const TowerSettings& settings, int towers);

/// A step to take; its scalars are the optimiser's affair.
struct TowerStep {
  std::int64_t step = 0;
  Batch batch;                ///< its images stay alive until the call returns; none where keeps_records
  bool request_sync = false;  ///< all ranks are to learn of it with the step's result, and agree on what is next
  bool tells_l2 = false;      ///< the step's result is to have the L2 loss
  std::function<void()> before_update = {};  ///< as StepRequest::before_update
};

/// Initial values of a variable that are not drawn, row-major.
struct GivenValues {
  std::string variable;
  std::vector<float> values;
};

class Tower {
 public:
  /// `device` and `communicator` outlive the tower. Collective.
  Tower(const Network& network, const Task& task, const TowerSettings& settings, Device& device,
        Communicator& communicator);
  Tower(const Tower&) = delete;
  Tower& operator=(const Tower&) = delete;
  ~Tower();

  // One of these three on rank 0, before the first step: peers may still be gathering after one. Then
  // `broadcast_from_first` on all. Errors: failed, on another rank where the slots are common.
  /// Variables drawn from `seed`, but for those with `given` values; slots and buffers as they begin. Errors: failed (a
  /// given one is no variable of that many elements).
  void initialize(std::uint64_t seed, const std::vector<GivenValues>& given = {});
  /// All that a checkpoint holds: variables, slots, buffers, their slow copies with the variables'. Errors: data (of
  /// another network or optimiser: names the file and the array that is missing, unknown or of another shape).
  void restore(const LoadedCheckpoint& checkpoint);
  /// A checkpoint's variables and buffers; slots as they begin. Errors: as restore.
  void initialize_from(const LoadedCheckpoint& checkpoint);
  /// Rank 0's variables, slots and buffers to every tower. Collective.
  void broadcast_from_first();

  /// One training step: done on return, or under way (StepDriver). A loss that is not finite is told, and no
  /// variable and no slot is updated. Collective.
  void step(const TowerStep& step);
  /// As InputStage::keeps_records.
  bool keeps_records() const { return input_stage_->keeps_records(); }
  /// As StepDriver::next_result.
  std::optional<StepResult> next_result(Results wanted) { return driver_->next_result(wanted); }
  /// As StepDriver::captured_nodes.
  const std::vector<std::string>& captured_nodes() const { return driver_->captured_nodes(); }

  /// Makes each state on every tower what AcrossRanks says it is, after all steps taken. Collective; before `save` and
  /// evaluations.
  void synchronize_buffers();
  /// Adds variables, slots and buffers, after all steps taken, to `state`. After `synchronize_buffers`: so on one rank
  /// alone, too.
  void save(CheckpointState& state) const;

  const Network& network() const { return network_; }
  const Task& task() const { return task_; }
  const Graph& graph() const { return built_.graph; }
  // As the steps launched so far leave them; `synchronize_buffers` launches all that are taken.
  const ParameterStore& parameters() const { return parameters_; }
  const BufferStore& buffers() const { return buffers_; }
  /// Whether this tower keeps the optimiser's slots for itself, and not with the others in common.
  bool has_own_slots() const { return !sharded_update_; }
  /// What this tower's ops are joined to the others' by; null where none is.
  TowerLink* link() const { return link_.get(); }
  /// Of what `save` adds.
  std::size_t saved_floats() const;
  std::size_t activation_bytes() const {
    return micro_batches_ ? micro_batches_->memory_bytes() : executable_->memory_bytes();
  }

 private:
  std::unique_ptr<Executable> make_executable();
  /// Makes step `step` compute the gradients that it needs, and no others.
  void compute_gradients_for(std::int64_t step);
  /// Errors: failed, where another rank is to fill the slots.
  void check_fills_slots() const;
  /// Slots and slow copies as they begin, from the present variables and buffers.
  void begin_slots();
  /// As a checkpoint holds it: with the buffers' slow copies in that of the variables'.
  NamedTensors saved_slot(std::size_t slot) const;

  Device& device_;
  Communicator& communicator_;
  OptimizerSettings optimizer_settings_;
  Network network_;
  Task task_;
  BuiltNetwork built_;
  InputStageSpec input_stage_spec_;
  std::unique_ptr<InputStage> input_stage_;
  ParameterStore parameters_;
  BufferStore buffers_;
  std::optional<BufferLookahead> buffer_lookahead_;  ///< where there are buffers and a lookahead
  std::unique_ptr<TowerLink> link_;
  std::unique_ptr<Executable> executable_;       ///< for the whole batch, or ...
  std::unique_ptr<MicroBatches> micro_batches_;  ///< ... in parts
  Reducer reducer_;
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<TrainedSteps> trained_steps_;  ///< by variable
  std::vector<bool> trains_;                 ///< by variable: in the step before; at first all
  std::optional<ShardedUpdate> sharded_update_;
  TrainingStep step_;
  bool buffers_are_synchronized_ = false;  ///< since the last step
  std::unique_ptr<StepDriver> driver_;     ///< last, so that it goes first: its steps use all that is above
};

}  // namespace carillon
