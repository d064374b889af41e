#include "carillon/step/training_step.h"

#include "src/step/step_sums.h"

namespace carillon {

void TrainingStep::enqueue_gradients(Device& device) {
  Stream& stream = device.stream();
  parts_.executable.forward(stream);
  parts_.reducer.begin(stream);
  enqueue_step_sums(device, parts_.executable.tensor(parts_.loss), parts_.inputs, parts_.parameters.step_sums());
  parts_.executable.backward(stream, [&](int parameter) { parts_.reducer.add(parameter, stream); });
}

void TrainingStep::enqueue_means(Device& device) { parts_.reducer.finalize(device.stream()); }

void TrainingStep::enqueue_update(Device& device) { parts_.optimizer.apply(end_, device.stream()); }

}  // namespace carillon
