// CudaStepTable: the memory behind a StepTable, and the way into it.
//
// Images: the whole data set, uploaded once, when it fits; else a place for every slot's batch, to which it is copied
// from page-locked memory.
#pragma once

#include "carillon/data/dataset.h"
#include "carillon/graph/step_table.h"
#include "carillon/step/driver.h"
#include "src/device/cuda_device.h"

namespace carillon {

class CudaStepTable {
 public:
  /// `dataset`: as in StepDriverSettings; uploaded when `keeps_on_device` says so.
  CudaStepTable(CudaDevice& device, std::size_t batch_size, std::size_t image_bytes, std::uint32_t capacity,
                const Dataset* dataset);

  /// Whether `dataset` is to lie in the GPU's memory: it is decoded, and takes at most half of what is free.
  static bool keeps_on_device(const CudaDevice& device, const Dataset* dataset);

  StepInputs inputs() const;
  /// Notes a step for `slot` in the host's memory.
  void write(std::uint32_t slot, const Batch& batch, const UpdateStep& update, bool request_stop);
  /// Enqueues the copy of `count` slots to the GPU.
  void upload(std::uint32_t first, std::uint32_t count, const CudaStream& stream);
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
  void write_images(std::uint32_t slot, const Batch& batch);

  std::size_t batch_size_, image_bytes_;
  std::uint32_t capacity_, entry_bytes_;
  Mirrored entries_;
  Buffer kept_images_, kept_labels_;  ///< [record] the data set, if it is kept
  Mirrored images_, labels_;          ///< [slot][batch] otherwise
  Buffer step_counter_, blocks_done_, outcomes_;
};

}  // namespace carillon
