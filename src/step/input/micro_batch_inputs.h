// MicroBatchInputs: the StepInputs of one micro-batch of the current step on a GPU. CUDA builds only.
//
// Ops read a table with a single entry. `select` copies to it the header and the samples of a micro-batch from the
// current entry of the step's ring. So one executable serves all micro-batches, and a captured step selects them again
// at each replay.
#pragma once

#include <cstdint>

#include "carillon/device/device.h"
#include "carillon/graph/step_inputs.h"

namespace carillon {

/// Copies the header and samples `first` and following of the current entry. `i`: sample of the micro-batch.
struct SelectMicroBatch {
  StepTable from;
  std::byte* to = nullptr;       ///< an entry for the micro-batch
  std::uint32_t records_at = 0;  ///< StepTable::records_at of that entry
  std::uint32_t first = 0;

  CARILLON_HOST_DEVICE void operator()(std::int64_t i) const {
    const auto sample = static_cast<std::uint32_t>(i);
    if (sample == 0) {
      StepHeader& header = *reinterpret_cast<StepHeader*>(to);
      header = from.header();
      header.first_position += first;
    }
    reinterpret_cast<std::uint32_t*>(to + StepTable::rows_offset)[sample] = from.row(first + sample);
    reinterpret_cast<std::uint32_t*>(to + records_at)[sample] = from.record(first + sample);
  }
};

class MicroBatchInputs {
 public:
  /// `of_step`: inputs of the rank's whole batch, on a GPU. `samples`: per micro-batch.
  MicroBatchInputs(const StepInputs& of_step, std::uint32_t samples, Device& device);

  /// The inputs that an executable reads. The address is constant during the lifetime of this.
  const StepInputs& inputs() const { return inputs_; }
  /// Enqueues the selection of micro-batch number `micro_batch` of the current step.
  void select(std::uint32_t micro_batch, Stream& stream) const;

 private:
  StepTable of_step_;
  std::uint32_t samples_;
  Buffer entry_;
  StepInputs inputs_;
};

}  // namespace carillon
