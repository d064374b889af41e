#include "src/step/gradients/cuda_classifier.h"

namespace carillon {

void CudaClassifier::enqueue(GradientSink& sink) {
  Stream& stream = context_.device.stream();
  const bool stores_gradients = !sink.takes_tiles(step_.gradients());
  if (stores_gradients) sink.acquire(stream);
  step_.enqueue_activations(stream);
  if (!stores_gradients) return;
  step_.enqueue_gradients(stream);
  for (const int parameter : context_.parameters.layout().order()) sink.gradient_complete(parameter, stream);
}

}  // namespace carillon
