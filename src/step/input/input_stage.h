// InputStage: copies the inputs of steps to the memory that a device's ops read. Trainings and evaluations use it.
//
//   stage.write(slot, request), ...; stage.upload(first, count, stream); executable.forward(stream)
//
// A CPU has one slot, which holds the current step. A GPU has a ring of slots in its memory (StepTable). The host fills
// slots ahead of the GPU.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>

#include "carillon/core/sample.h"
#include "carillon/data/dataset.h"
#include "carillon/device/device.h"
#include "carillon/graph/step_inputs.h"

namespace carillon {

/// Consecutive records of a dataset: either [begin, end), or all records from `begin` on.
struct RecordRange {
  std::uint64_t begin = 0, end = std::numeric_limits<std::uint64_t>::max();
};

/// One step to run. The loader fills it and the device runs it. An evaluation sets only the batch.
struct StepRequest {
  std::int64_t step = 0;
  std::optional<std::int64_t> schedule_step = {};  ///< position in the schedule of the learning rate; nullopt: `step`
  Batch batch;                ///< valid until the step is enqueued; needs no images if InputStage::keeps_records()
  bool request_sync = false;  ///< all ranks see the request in the step's result, and then synchronize
  bool reports_l2 = false;    ///< true: the step's result reports the L2 loss
  /// Called after the gradients have been averaged and before the variables are updated. May be empty. Either all ranks
  /// set it, or no rank sets it.
  std::function<void()> before_update = {};
  /// CPU only: called when the rank's own gradient of a parameter is complete, before it is averaged. May be empty.
  std::function<void(int parameter)> gradient_complete = {};
  StepScalars scalars = {};  ///< scalars of the optimizer; Tower::step sets them
};

struct InputStageSpec {
  std::size_t batch_size = 1;
  std::size_t image_bytes = 0;   ///< bytes per record
  std::size_t target_bytes = 0;  ///< bytes per sample (Graph::target_bytes); 0: the stage does not copy targets
  std::uint32_t slots = 1;
  /// The dataset from which all batches come. A GPU keeps the records of `kept` in its memory if they fit; each batch
  /// must then contain record numbers. Null: samples are always copied. Must outlive the input stage.
  const Dataset* dataset = nullptr;
  RecordRange kept = {};  ///< the records of `dataset` that batches may contain
  std::size_t max_kept_bytes = std::numeric_limits<std::size_t>::max();
};

class InputStage {
 public:
  virtual ~InputStage() = default;
  /// Returns the inputs that an executable and an optimiser read. The address does not change during the input stage's
  /// lifetime.
  const StepInputs& inputs() const { return inputs_; }
  /// True if the device's memory holds the records. Batches then need only record numbers.
  virtual bool keeps_records() const { return false; }
  /// Writes a step's inputs to `slot`. The batch has batch_size samples. On a CPU the batch must stay valid until the
  /// step is done. On a GPU, the caller may release the batch when write() returns.
  virtual void write(std::uint32_t slot, const StepRequest& request) = 0;
  /// Enqueues copies of `count` slots to the device, starting at slot `first`. Slot 0 follows the last slot.
  virtual void upload(std::uint32_t first, std::uint32_t count, Stream& stream) = 0;
  /// GPU only: returns the outcome of the last step that used `slot`. That step must have finished.
  virtual StepOutcome outcome(std::uint32_t slot) const = 0;

 protected:
  StepInputs inputs_;
};

std::unique_ptr<InputStage> make_input_stage(Device& device, const InputStageSpec& form);
/// Does the same as make_input_stage for a GPU. CUDA builds only (cuda_input_stage.cpp).
std::unique_ptr<InputStage> make_cuda_input_stage(Device& device, const InputStageSpec& form);

}  // namespace carillon
