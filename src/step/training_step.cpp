#include "src/step/training_step.h"

#include <algorithm>
#include <utility>

#include "src/step/gradients/step_sums.h"

namespace carillon {

void TrainingStep::enqueue_gradients(Device& device, Means means) {
  means_ = means;
  updates_with_means_ = parts_.common != nullptr && means == Means::in_update;
  parts_.micro_batches != nullptr ? enqueue_micro_batches(device) : enqueue_whole_batch(device);
}

void TrainingStep::enqueue_whole_batch(Device& device) {
  Stream& stream = device.stream();
  Executable& executable = *parts_.executable;
  executable.forward(stream);
  if (!updates_with_means_) parts_.reducer.begin(stream);
  if (std::exchange(clears_gradients_, false)) {  // no earlier: peers may have been reading them
    std::ranges::fill(parts_.parameters.gradients_and_sums(), 0.0f);
  }
  if (!executable.writes_step_sums()) {
    write_step_sums(device, executable.tensor(parts_.loss), parts_.inputs, parts_.parameters.step_sums());
  }
  if (!updates_with_means_) {
    executable.backward(stream, [&](int parameter) { parts_.reducer.add(parameter, stream); });
    return;
  }
  parts_.common->begin(end_);
  executable.backward(stream, [&](int parameter) { parts_.common->add(parameter); });
}

void TrainingStep::enqueue_micro_batches(Device& device) {
  Stream& stream = device.stream();
  parts_.micro_batches->compute(parts_.inputs);
  if (!updates_with_means_) parts_.reducer.begin(stream);
  parts_.micro_batches->finish();
  if (updates_with_means_) parts_.common->begin(end_);
  for (const int parameter : parts_.parameters.layout().order()) {
    updates_with_means_ ? parts_.common->add(parameter) : parts_.reducer.add(parameter, stream);
  }
}

void TrainingStep::enqueue_means(Device& device) {
  if (updates_with_means_) {
    parts_.common->finish();
  } else {
    parts_.reducer.finalize(device.stream());
    make_observed_means(device.stream());
  }
  if (parts_.micro_batches != nullptr) parts_.micro_batches->take_buffers();
}

void TrainingStep::make_observed_means(Stream& stream) {
  end_.result_scale = parts_.result_scale;
  if (means_ == Means::in_update || end_.result_scale == 1.0f) return;
  parts_.optimizer.make_means(end_, stream);
  end_.result_scale = 1.0f;
}

void TrainingStep::enqueue_update(Device& device) {
  if (parts_.lookahead != nullptr) parts_.lookahead->enqueue(end_, device);
  if (updates_with_means_) return;
  if (parts_.common != nullptr) {
    parts_.common->update_from_means(end_);
  } else {
    parts_.optimizer.apply(end_, device.stream());
  }
}

}  // namespace carillon
