#include "kernels/shared/launch.cuh"
#include "src/step/gradients/cuda_micro_batches.h"

namespace carillon {

MicroBatchInputs::MicroBatchInputs(const StepInputs& of_step, std::uint32_t samples, Device& device)
    : of_step_(of_step.table), samples_(samples), entry_(device.allocate(StepTable::bytes_of_entry(samples))) {
  inputs_.table = of_step.table;
  inputs_.table.entries = static_cast<const std::byte*>(entry_.data());
  inputs_.table.entry_bytes = StepTable::bytes_of_entry(samples);
  inputs_.table.records_at = StepTable::records_offset(samples);
  inputs_.table.capacity = 1;
}

void MicroBatchInputs::select(std::uint32_t micro_batch, Stream& stream) const {
  const SelectMicroBatch kernel{of_step_, static_cast<std::byte*>(entry_.data()), inputs_.table.records_at,
                                micro_batch * samples_};
  launch(ForEachElement{kernel, static_cast<std::int64_t>(samples_)}, stream);
}

}  // namespace carillon
