// StepDriver: how the host drives the steps of a device. A CPU takes each step at once. A GPU is given steps ahead, is
// fed through a table in its memory, replays the captured step, and tells what came of it some steps later.
//
// The number of steps between a step and its result depends on the calls alone, not on timing, so all ranks learn of a
// stop or a NaN at the same step.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "carillon/comm/communicator.h"
#include "carillon/data/dataset.h"
#include "carillon/graph/op.h"
#include "carillon/graph/parameters.h"

namespace carillon {

struct StepRequest {
  std::int64_t step = 0;
  Batch batch;  ///< its images stay alive until the call returns
  UpdateStep update;
  bool request_stop = false;
  /// If any (on all ranks or none): runs when gradients are averaged and variables still old.
  std::function<void()> before_update;
};

/// Averaged over the towers, equal on all of them.
struct StepResult {
  std::int64_t step = 0;
  double cross_entropy = 0.0;   ///< of the global batch, without L2; not finite: nothing was updated
  bool stop_requested = false;  ///< some rank asked to stop
  double reduce_seconds = 0.0;  ///< this rank waited for means after its own backward was done; 0 on a GPU
};

class StepDriver {
 public:
  /// Enqueues the whole of a step on the device's stream; with `before_update` as in StepRequest.
  using Enqueue = std::function<void(const std::function<void()>& before_update)>;

  virtual ~StepDriver() = default;
  /// What the executable and the optimizer are to be built on.
  virtual StepInputs inputs() const = 0;
  /// Enqueues the step's own loss and stop request into the step sums.
  virtual void enqueue_sums(const Tensor& loss, std::span<float> sums, Stream& stream) = 0;
  /// Takes a step, at once or some time before its result is taken. `inputs`: the executable's.
  virtual void step(StepInputs& inputs, const StepRequest& request, const Enqueue& enqueue) = 0;
  /// Launches the steps taken so far, so that later work on the stream finds what they leave.
  virtual void flush() = 0;
  /// The oldest result not yet taken: if `all`, until none is left; else only while more steps are under way than the
  /// device wants.
  virtual std::optional<StepResult> take_result(bool all) = 0;
};

struct StepDriverSettings {
  std::size_t batch_size = 1;
  std::size_t image_bytes = 0;       ///< of a record
  const Dataset* dataset = nullptr;  ///< whose records the steps take; null: any, always copied
  bool capture = true;               ///< replay captured steps where device and communicator can
};

/// References outlive the driver.
std::unique_ptr<StepDriver> make_step_driver(Device& device, Communicator& communicator,
                                             const StepDriverSettings& settings);

/// Brings batches to where the ops of an evaluation read them.
class BatchFeed {
 public:
  virtual ~BatchFeed() = default;
  virtual StepInputs inputs() const = 0;
  /// `inputs`: the executable's. The batch's images stay alive until its forward is done.
  virtual void set(StepInputs& inputs, const Batch& batch) = 0;
};

std::unique_ptr<BatchFeed> make_batch_feed(Device& device, std::size_t batch_size, std::size_t image_bytes);

}  // namespace carillon
