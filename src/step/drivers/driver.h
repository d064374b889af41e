// StepDriver: runs steps on a device. A CPU runs each step at once. For a GPU, the host enqueues steps ahead: it writes
// their inputs to a table in the GPU's memory, replays a captured step, and reads the results some steps later.
//
// The number of steps between a step and its result depends only on the calls, not on timing. So all ranks learn of a
// synchronisation request or a NaN at the same step.
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
  StagedStep inputs;  ///< its images live until the call returns
  /// Called when the gradients are averaged and the variables are not yet updated. May be empty. Either all ranks set
  /// it or none.
  std::function<void()> before_update;
  /// CPU only: called when the rank's own gradient of a parameter is complete, before it is averaged. May be empty.
  std::function<void(int parameter)> gradient_complete;
};

/// The result of a step, averaged over the ranks. Equal on all ranks, except the times.
struct StepResult {
  std::int64_t step = 0;
  double loss = 0.0;     ///< mean over the global batch, without L2; not finite: the update was skipped
  double l2_loss = 0.0;  ///< L2 loss before the update, in steps that report it
  /// Norm of the mean gradient before clipping; the gradient includes the L2 part. Only with
  /// OptimizerSettings::clip_norm, and only if the step updates the variables.
  std::optional<double> gradient_norm = {};
  bool sync_requested = false;  ///< a rank requested a synchronisation
  /// Time of TrainingStep::enqueue_means after this rank's backward pass. 0 on a GPU.
  double reduce_seconds = 0.0;
  /// Estimated time at which the step ended. If the host learns of several steps at once, they get equal intervals.
  std::chrono::steady_clock::time_point finished;
};

/// Which results next_result returns.
enum class Results {
  due,  ///< steps older than those that the device keeps in flight (src/step/drivers/queue.h)
  all,  ///< every step
};

class StepDriver {
 public:
  virtual ~StepDriver() = default;
  /// Runs a step at once, or enqueues it to run before its result is returned.
  virtual void enqueue(const StepRequest& request) = 0;
  /// Launches all enqueued steps. Later work on the stream runs after them.
  virtual void flush() = 0;
  /// The oldest result that is due and not yet returned; waits for it. A CPU keeps only the result of the last step.
  virtual std::optional<StepResult> next_result(Results wanted) = 0;
  /// The nodes of a captured step, kernels by name. Empty before the first capture.
  virtual const std::vector<std::string>& captured_nodes() const = 0;
};

/// The number of input stage slots that the device's driver requires. Depends only on the arguments, so that all ranks
/// launch the same blocks of steps. `passes`: forward and backward passes of a step.
std::uint32_t input_stage_slots(DeviceKind device, std::size_t batch_size, std::size_t image_bytes,
                                std::uint32_t passes = 1);

/// The parts that a driver runs. They outlive the driver.
struct DrivenTower {
  Device& device;
  Communicator& communicator;
  InputStage& input_stage;
  TrainingStep& step;
};

/// `capture`: replay captured steps if device and communicator can.
std::unique_ptr<StepDriver> make_step_driver(const DrivenTower& tower, const InputStageSpec& form, bool capture);
/// As make_step_driver, for a GPU. CUDA builds only (cuda_driver.cpp).
std::unique_ptr<StepDriver> make_cuda_step_driver(const DrivenTower& tower, const InputStageSpec& form, bool capture);

}  // namespace carillon
