#include "carillon/step/training_step.h"

#include "src/step/step_sums.h"

namespace carillon {

void TrainingStep::enqueue_gradients(Device& device, Means means) {
  Stream& stream = device.stream();
  updates_with_means_ = parts_.common != nullptr && means == Means::in_update;
  parts_.executable.forward(stream);
  if (!updates_with_means_) parts_.reducer.begin(stream);
  enqueue_step_sums(device, parts_.executable.tensor(parts_.loss), parts_.inputs, parts_.parameters.step_sums());
  if (!updates_with_means_) {
    parts_.executable.backward(stream, [&](int parameter) { parts_.reducer.add(parameter, stream); });
    return;
  }
  parts_.common->begin(end_);
  parts_.executable.backward(stream, [&](int parameter) { parts_.common->add(parameter); });
}

void TrainingStep::enqueue_means(Device& device) {
  if (updates_with_means_) {
    parts_.common->finish();
  } else {
    parts_.reducer.finalize(device.stream());
  }
}

void TrainingStep::enqueue_update(Device& device) {
  if (updates_with_means_) return;
  if (parts_.common != nullptr) {
    parts_.common->update_from_means(end_);
  } else {
    parts_.optimizer.apply(end_, device.stream());
  }
}

}  // namespace carillon
