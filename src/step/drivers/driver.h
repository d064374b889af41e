// StepDriver: how the host drives the steps of a device. A CPU takes each step at once. A GPU is given steps ahead, is
// fed through a table in its memory, replays the captured step, and tells what came of it some steps later.
//
// The number of steps between a step and its result depends on the calls alone, not on timing, so all ranks learn of a
// request for a pause or a NaN at the same step.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/comm/allreduce/communicator.h"
#include "src/step/input/input_stage.h"
#include "src/step/training_step.h"

namespace carillon {

struct StepRequest {
  std::int64_t step = 0;
  StagedStep inputs;  ///< its images stay alive until the call returns
  /// If any (on all ranks or none): runs when gradients are averaged and variables still old.
  std::function<void()> before_update;
};

/// Averaged over the towers, equal on all of them.
struct StepResult {
  std::int64_t step = 0;
  double loss = 0.0;            ///< of the global batch, without L2; not finite: no variable and no slot was updated
  double l2_loss = 0.0;         ///< where the step tells it: of the variables that its loss is computed from
  bool sync_requested = false;  ///< some rank asked for one
  /// This rank waited for means, or, where the update is made with them, for that, after its own backward; 0 on a GPU.
  double reduce_seconds = 0.0;
  /// When it was over, as far as the host can tell: of steps heard of together, at equal distances.
  std::chrono::steady_clock::time_point finished;
};

/// Which results are wanted.
enum class Results {
  due,  ///< those of steps older than what the device wants under way (src/step/drivers/queue.h); waits for no others
  all,  ///< of every step taken
};

class StepDriver {
 public:
  virtual ~StepDriver() = default;
  /// Takes a step, at once or some time before its result is taken.
  virtual void take(const StepRequest& request) = 0;
  /// Launches the steps taken so far, so that later work on the stream finds what they leave.
  virtual void flush() = 0;
  /// The oldest result not yet given, of those wanted. A CPU keeps the last step's only.
  virtual std::optional<StepResult> next_result(Results wanted) = 0;
  /// What a captured step consists of, kernels by name: none before one is captured by itself, not in a block.
  virtual const std::vector<std::string>& captured_nodes() const = 0;
};

/// Slots of the input stage that a driver for such steps wants. A function of the arguments alone, so that all ranks
/// launch alike, wherever their data lie.
std::uint32_t input_stage_slots(DeviceKind device, std::size_t batch_size, std::size_t image_bytes);

/// What a driver drives; outlives it.
struct DrivenTower {
  Device& device;
  Communicator& communicator;
  InputStage& input_stage;
  TrainingStep& step;
  const ParameterStore& parameters;
};

/// `capture`: replay captured steps where device and communicator can.
std::unique_ptr<StepDriver> make_step_driver(const DrivenTower& tower, const InputStageSpec& form, bool capture);

}  // namespace carillon
