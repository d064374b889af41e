// The GPU memory of a forward pass without training: the views of the images, and the outputs of the batches in flight.
// CUDA builds only.
#pragma once

#include <cstdint>
#include <span>

#include "carillon/core/sample.h"
#include "carillon/core/tensor.h"
#include "carillon/device/device.h"
#include "carillon/graph/step_inputs.h"
#include "src/device/cuda_device.h"
#include "src/step/forward/image_views.h"

namespace carillon {

/// The StepInputs of a view of the current batch.
///
/// Ops read a table with a single entry. The images of this entry are the views. `write` makes the views of the images
/// that the current entry of the ring of batches names. Therefore one executable serves all views.
class ViewInputs {
 public:
  /// `of_batch`: inputs of a whole batch of `samples` images, on a GPU.
  ViewInputs(const StepInputs& of_batch, const ImageShape& image, std::size_t samples, Device& device);

  /// The inputs that an executable reads. The address stays the same during the lifetime of this object.
  const StepInputs& inputs() const { return inputs_; }
  /// Enqueues the making of this view of the current batch.
  void write(const ImageView& view, Stream& stream) const;

 private:
  StepTable of_batch_;
  ImageShape image_;
  std::size_t samples_;
  Buffer entry_, images_;
  StepInputs inputs_;
};

/// One of several views of a batch.
struct ViewNumber {
  std::size_t number = 0, count = 1;
};

/// The outputs of the batches in flight as float32, on the GPU and on the host.
class OutputRing {
 public:
  /// `outputs`: the output tensor of a forward pass, f32 or bf16. `progress`: the progress of the input stage; its
  /// capacity becomes the capacity of the ring.
  OutputRing(const Tensor& outputs, const StepProgress& progress, CudaDevice& device);

  /// Enqueues the addition of weight * outputs to the sums of the current batch. The last view ends the batch.
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
