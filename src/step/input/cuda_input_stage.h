// CudaInputStage: owns the GPU memory of a StepTable and copies the inputs of steps to it.
//
// If the records of the dataset are in host memory and fit in half of the GPU's free memory, they are uploaded once.
// Otherwise each slot has memory for one batch, and the samples are copied through page-locked memory.
#pragma once

#include "src/device/cuda_device.h"
#include "src/step/input/input_stage.h"

namespace carillon {

class CudaInputStage final : public InputStage {
 public:
  CudaInputStage(CudaDevice& device, const InputStageSpec& form);

  bool keeps_records() const override { return kept_images_.data() != nullptr; }
  void write(std::uint32_t slot, const StepRequest& request) override;
  void upload(std::uint32_t first, std::uint32_t count, Stream& stream) override;
  /// Outcome of the last step that used `slot`. The step must be finished.
  StepOutcome outcome(std::uint32_t slot) const;

 private:
  /// A buffer on the GPU and a page-locked buffer of the same size on the host.
  struct Mirrored {
    Buffer host, device;
    Mirrored() = default;
    Mirrored(CudaDevice& owner, std::size_t bytes)
        : host(owner.allocate_pinned(bytes)), device(owner.allocate(bytes)) {}
    std::byte* at(std::size_t offset) const { return static_cast<std::byte*>(host.data()) + offset; }
    void copy(std::size_t offset, std::size_t bytes, const CudaStream& stream) const;
  };

  /// Whether the dataset is decoded in host memory, and its records need at most max_kept_bytes and half of the GPU's
  /// free memory.
  bool fits_on(const CudaDevice& device) const;
  void keep(CudaDevice& device, const Dataset& dataset);
  void set_inputs();
  void write_samples(std::uint32_t slot, const Batch& batch);

  InputStageSpec form_;
  std::uint32_t entry_bytes_;
  Mirrored entries_;
  Buffer kept_images_, kept_targets_;  ///< [record - form_.kept.begin], if keeps_records()
  Mirrored images_, targets_;          ///< [slot][batch], otherwise
  Buffer step_counter_, blocks_done_, outcomes_;
};

/// Casts `input_stage` to a CudaInputStage. Errors: failed (it is not one).
CudaInputStage& as_cuda(InputStage& input_stage);

}  // namespace carillon
