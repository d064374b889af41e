// OutputRing: the outputs of the batches in flight on a GPU, as float32, on the GPU and on the host. CUDA builds only.
#pragma once

#include <cstdint>
#include <span>

#include "carillon/core/tensor.h"
#include "carillon/graph/step_inputs.h"
#include "src/device/cuda_device.h"

namespace carillon {

/// One of several views of a batch.
struct ViewNumber {
  std::size_t number = 0, count = 1;
};

class OutputRing {
 public:
  /// `outputs`: those of a forward pass, f32 or bf16. `progress`: of the input stage; its capacity is the ring's.
  OutputRing(const Tensor& outputs, const StepProgress& progress, CudaDevice& device);

  /// Enqueues the addition of weight * outputs to those of the current batch. Its last view ends the batch.
  void add(ViewNumber view, float weight, Stream& stream) const;
  /// Enqueues a copy of the outputs of `count` slots to the host, starting at slot `first`.
  void download(std::uint32_t first, std::uint32_t count, const CudaStream& stream) const;
  /// The outputs in a slot, once they are downloaded.
  std::span<const float> at(std::uint32_t slot) const;

 private:
  Tensor outputs_;
  StepProgress progress_;
  std::size_t count_;  ///< outputs of a batch
  Buffer device_, host_;
};

}  // namespace carillon
