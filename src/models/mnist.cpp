// The fully connected network for MNIST of the reference program.
//
//   layer              output      weights    stddev  bias  L2
//   layer1 + ReLU      500         784x500    0.1     0.0   yes
//   layer2             classes     500x10     0.1     0.0   yes
#include "carillon/models/networks.h"
#include "kernels/dense/dense.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/scale_input/scale_input.h"

namespace carillon {

Network mnist_network(const NetworkSettings& settings) {
  const auto layers = [settings](Graph& graph) {
    const auto weights = [](int number) { return Initializer{Initializer::Kind::truncated_normal, 0.1f, number}; };
    const Initializer biases{Initializer::Kind::constant, 0.0f};
    const float l2 = settings.regularization;
    const ImageShape& image = settings.image;

    Value x = scale_input(graph, "input",
                          {.sample = {image.height, image.width, image.channels}, .scale = settings.pixel_scale});
    x = dense(
        graph, "layer1", x,
        {.units = 500, .weights = weights(0), .biases = biases, .l2_factor = l2, .input_density = settings.density});
    x = relu(graph, "layer1/relu", x);
    return dense(graph, "layer2", x,
                 {.units = settings.outputs, .weights = weights(2), .biases = biases, .l2_factor = l2});
  };
  return make_network("mnist", settings, layers);
}

}  // namespace carillon
