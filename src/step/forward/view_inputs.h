// ViewInputs: the StepInputs of a view of the current batch on a GPU. CUDA builds only.
//
// Ops read a table with a single entry, whose images are the views. `write` makes the views of the images that the
// current entry of the batches' ring names. So one executable serves all views.
#pragma once

#include "carillon/core/sample.h"
#include "carillon/device/device.h"
#include "carillon/graph/step_inputs.h"
#include "src/step/forward/image_views.h"

namespace carillon {

class ViewInputs {
 public:
  /// `of_batch`: inputs of a whole batch of `samples` images, on a GPU.
  ViewInputs(const StepInputs& of_batch, const ImageShape& image, std::size_t samples, Device& device);

  /// The inputs that an executable reads. The address is constant during the lifetime of this.
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

}  // namespace carillon
