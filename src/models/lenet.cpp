// A LeNet-5-style network for MNIST, wider than the original and with ReLU and max pooling. Source: LeCun, Bottou,
// Bengio, Haffner, "Gradient-based learning applied to document recognition", 1998, figure 2.
//
//   layer                    output      weights
//   conv1 + ReLU             28x28x32    5x5x1x32
//   pool1   max 2x2 / 2      14x14x32
//   conv2 + ReLU             14x14x64    5x5x32x64
//   pool2   max 2x2 / 2      7x7x64
//   fc1 + ReLU               512         3136x512     L2
//   fc2                      classes     512x10       L2
#include "carillon/models/networks.h"
#include "kernels/conv2d/conv2d.h"
#include "kernels/dense/dense.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/max_pool/max_pool.h"
#include "kernels/scale_input/scale_input.h"

namespace carillon {

Network lenet_network(const NetworkSettings& settings) {
  const auto layers = [settings](Graph& graph) {
    const Initializer weights{Initializer::Kind::truncated_normal, 0.1f, 0};
    const auto small = [](int number) { return Initializer{Initializer::Kind::truncated_normal, 0.04f, number}; };
    const Initializer biases{Initializer::Kind::constant, 0.1f};
    const float l2 = settings.regularization;
    const ImageShape& image = settings.image;

    Value x = scale_input(graph, "input",
                          {.sample = {image.height, image.width, image.channels}, .scale = settings.pixel_scale});
    x = conv2d(graph, "conv1", x, {.filters = 32, .kernel = 5, .weights = weights, .biases = biases});
    x = relu(graph, "conv1/relu", x);
    x = max_pool(graph, "pool1", x, {.window = 2, .stride = 2});
    x = conv2d(graph, "conv2", x, {.filters = 64, .kernel = 5, .weights = small(2), .biases = biases});
    x = relu(graph, "conv2/relu", x);
    x = max_pool(graph, "pool2", x, {.window = 2, .stride = 2});
    x = dense(graph, "fc1", x, {.units = 512, .weights = small(4), .biases = biases, .l2_factor = l2});
    x = relu(graph, "fc1/relu", x);
    return dense(graph, "fc2", x, {.units = settings.outputs, .weights = small(6), .biases = biases, .l2_factor = l2});
  };
  return make_network("lenet", settings, layers);
}

}  // namespace carillon
