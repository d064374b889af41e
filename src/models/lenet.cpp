// A LeNet-5-style network for MNIST (LeCun, Bottou, Bengio, Haffner, "Gradient-based learning applied to document
// recognition", 1998, figure 2), in the wider form with ReLU and max pooling that is usual today:
//
//   layer                    output      weights
//   conv1 + ReLU             28x28x32    5x5x1x32
//   pool1   max 2x2 / 2      14x14x32
//   conv2 + ReLU             14x14x64    5x5x32x64
//   pool2   max 2x2 / 2      7x7x64
//   fc1 + ReLU               512         3136x512     L2
//   fc2                      10          512x10       L2
#include "src/models/lenet.h"

#include "kernels/conv2d/conv2d.h"
#include "kernels/dense/dense.h"
#include "kernels/max_pool/max_pool.h"
#include "kernels/scale_input/scale_input.h"

namespace carillon {

Value build_lenet(Graph& graph, const ModelSettings& settings) {
  const Initializer weights{Initializer::Kind::truncated_normal, 0.1f};
  const Initializer small{Initializer::Kind::truncated_normal, 0.04f};
  const Initializer biases{Initializer::Kind::constant, 0.1f};
  const float l2 = settings.regularization;

  // The ReLU of each convolution is taken by the pooling behind it: the same values, a quarter of the elements.
  Value x = scale_input(graph, "input", {.sample = {28, 28, 1}, .scale = settings.pixel_scale});
  x = conv2d(graph, "conv1", x, {.filters = 32, .kernel = 5, .weights = weights, .biases = biases});
  x = max_pool(graph, "pool1", x, {.window = 2, .stride = 2, .relu = true});
  x = conv2d(graph, "conv2", x, {.filters = 64, .kernel = 5, .weights = small, .biases = biases});
  x = max_pool(graph, "pool2", x, {.window = 2, .stride = 2, .relu = true});
  x = dense(graph, "fc1", x, {.units = 512, .relu = true, .weights = small, .biases = biases, .l2_factor = l2});
  return dense(graph, "fc2", x, {.units = 10, .weights = small, .biases = biases, .l2_factor = l2});
}

}  // namespace carillon
