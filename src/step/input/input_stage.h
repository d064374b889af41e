// InputStage: brings the inputs of steps to where a device's ops read them; for training and evaluation alike.
//
//   input stage.write(slot, inputs), ...; input stage.upload(first, count, stream); executable.forward(stream)
//
// A CPU has one slot: the step in hand. A GPU has a ring of them in its memory (StepTable), filled ahead of it.
#pragma once

#include <cstdint>
#include <memory>

#include "carillon/core/batch.h"
#include "carillon/data/dataset.h"
#include "carillon/device/device.h"
#include "carillon/graph/step_inputs.h"

namespace carillon {

/// What is fed to a step. An evaluation has a batch only.
struct StagedStep {
  Batch batch;
  StepScalars scalars;
  bool request_sync = false;
  bool tells_l2 = false;  ///< its result is to have the L2 loss
};

struct InputStageSpec {
  std::size_t batch_size = 1;
  std::size_t image_bytes = 0;   ///< of a record
  std::size_t target_bytes = 0;  ///< of a sample (Graph::target_bytes); 0: targets are not staged
  std::uint32_t slots = 1;
  /// Whose records the steps take, each batch naming them, to be kept in a GPU's memory if they fit; null: any, always
  /// copied. Outlives the input stage.
  const Dataset* dataset = nullptr;
};

class InputStage {
 public:
  virtual ~InputStage() = default;
  /// What an executable and an optimizer are built on; the same for as long as the input stage lives.
  const StepInputs& inputs() const { return inputs_; }
  /// Whether the data set is kept in the device's memory: batches then need name their records only.
  virtual bool keeps_records() const { return false; }
  /// Notes a step's inputs for `slot`; the batch has batch_size samples. On a CPU the batch must stay alive until the
  /// step is done; a GPU's input stage has copied it when this returns.
  virtual void write(std::uint32_t slot, const StagedStep& step) = 0;
  /// Enqueues the copies to the device of `count` slots from `first`; behind the last slot comes the first again.
  virtual void upload(std::uint32_t first, std::uint32_t count, Stream& stream) = 0;

 protected:
  StepInputs inputs_;
};

std::unique_ptr<InputStage> make_input_stage(Device& device, const InputStageSpec& form);

}  // namespace carillon
