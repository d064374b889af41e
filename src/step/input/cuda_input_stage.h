// CudaInputStage: the memory behind a StepTable, and the way into it.
//
// Images: the whole data set, uploaded once, when it fits; else a place for every slot's batch, to which it is copied
// from page-locked memory.
#pragma once

#include "src/device/cuda_device.h"
#include "src/step/input/input_stage.h"

namespace carillon {

class CudaInputStage final : public InputStage {
 public:
  CudaInputStage(CudaDevice& device, const InputStageSpec& form);

  bool keeps_records() const override { return kept_images_.data() != nullptr; }
  void write(std::uint32_t slot, const StagedStep& step) override;
  void upload(std::uint32_t first, std::uint32_t count, Stream& stream) override;
  /// Of the last step in `slot`, which is over.
  StepOutcome outcome(std::uint32_t slot) const;

 private:
  /// Memory of the GPU and its image on the host.
  struct Mirrored {
    Buffer host, device;
    Mirrored() = default;
    Mirrored(CudaDevice& owner, std::size_t bytes)
        : host(owner.allocate_pinned(bytes)), device(owner.allocate(bytes)) {}
    std::byte* at(std::size_t offset) const { return static_cast<std::byte*>(host.data()) + offset; }
    void copy(std::size_t offset, std::size_t bytes, const CudaStream& stream) const;
  };

  void keep(CudaDevice& device, const Dataset& dataset);
  void set_inputs();
  void write_samples(std::uint32_t slot, const Batch& batch);

  InputStageSpec form_;
  std::uint32_t entry_bytes_;
  Mirrored entries_;
  Buffer kept_images_, kept_targets_;  ///< [record] the data set, if it is kept
  Mirrored images_, targets_;          ///< [slot][batch] otherwise
  Buffer step_counter_, blocks_done_, outcomes_;
};

/// Whether `dataset`, if there is one, fits in the GPU's memory: it is decoded, and takes at most half of what is free.
bool fits_on_device(const Dataset* dataset, const CudaDevice& device);

/// The CudaInputStage that `input stage` is. Errors: failed when it is another kind.
CudaInputStage& as_cuda(InputStage& input_stage);

}  // namespace carillon
