#include "src/models/mnist.h"

#include "kernels/dense/dense.h"
#include "kernels/scale_input/scale_input.h"

namespace carillon {

Value build_mnist(Graph& graph, const ModelSettings& settings) {
  const Initializer weights{Initializer::Kind::truncated_normal, 0.1f};
  const Initializer biases{Initializer::Kind::constant, 0.0f};
  const float l2 = settings.regularization;

  Value x = scale_input(graph, "input", {.sample = {28, 28, 1}, .scale = settings.pixel_scale});
  x = dense(graph, "layer1", x, {.units = 500, .relu = true, .weights = weights, .biases = biases, .l2_factor = l2});
  return dense(graph, "layer2", x, {.units = 10, .relu = false, .weights = weights, .biases = biases, .l2_factor = l2});
}

}  // namespace carillon
