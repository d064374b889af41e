// The networks for MNIST and other small images: mnist, lenet, vgg7.
#include "carillon/models/networks.h"
#include "kernels/conv2d/conv2d.h"
#include "kernels/dense/dense.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/pool/pool.h"
#include "src/models/layers.h"

namespace carillon {

// The fully connected network of the reference program, for MNIST.
//
//   layer              output      weights    stddev  bias  L2
//   layer1 + ReLU      500         784x500    0.1     0.0   yes
//   layer2             classes     500x10     0.1     0.0   yes
Network mnist_network(const NetworkSettings& settings) {
  const auto layers = [settings](Graph& graph) {
    const auto weights = [](int number) { return Initializer{Initializer::Kind::truncated_normal, 0.1f, number}; };
    const Initializer biases{Initializer::Kind::constant, 0.0f};
    const float l2 = settings.regularization;

    Value x = image_input(graph, "input", scaled_images(settings));
    x = dense(
        graph, "layer1", x,
        {.units = 500, .weights = weights(0), .biases = biases, .l2_factor = l2, .input_density = settings.density});
    x = relu(graph, "layer1/relu", x);
    return dense(graph, "layer2", x,
                 {.units = settings.outputs, .weights = weights(2), .biases = biases, .l2_factor = l2});
  };
  return make_network("mnist", settings, layers);
}

// A LeNet-5-style network for MNIST, with ReLU and max pooling. It is wider than the original. Source: LeCun, Bottou,
// Bengio, Haffner, "Gradient-based learning applied to document recognition", 1998, figure 2.
//
//   layer                    output      weights
//   conv1 + ReLU             28x28x32    5x5x1x32
//   pool1   max 2x2 / 2      14x14x32
//   conv2 + ReLU             14x14x64    5x5x32x64
//   pool2   max 2x2 / 2      7x7x64
//   fc1 + ReLU               512         3136x512     L2
//   fc2                      classes     512x10       L2
Network lenet_network(const NetworkSettings& settings) {
  const auto layers = [settings](Graph& graph) {
    const Initializer weights{Initializer::Kind::truncated_normal, 0.1f, 0};
    const auto small = [](int number) { return Initializer{Initializer::Kind::truncated_normal, 0.04f, number}; };
    const Initializer biases{Initializer::Kind::constant, 0.1f};
    const float l2 = settings.regularization;

    Value x = image_input(graph, "input", scaled_images(settings));
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

// A small VGG-style network with batch norm, for digits and other small images. It has pairs of 3x3 convolutions;
// pooling follows each pair. Source: Simonyan, Zisserman, "Very deep convolutional networks for large-scale image
// recognition", 2015. With MNIST's images, it has 288,170 parameters.
//
//   layer              output      weights
//   conv1, conv2       28x28x32    3x3x1x32, 3x3x32x32
//   pool2   max 2x2    14x14x32
//   conv3, conv4       14x14x64    3x3x32x64, 3x3x64x64
//   pool4   max 2x2    7x7x64
//   conv5, conv6       7x7x128     3x3x64x128, 3x3x128x128
//   pool6   max 7x7    128
//   logits             classes     128x10
//
// A batch norm and a ReLU follow each convolution.
Network vgg7_network(const NetworkSettings& settings) {
  const auto layers = [settings](Graph& graph) {
    const auto conv = [&](const std::string& name, Value x, std::int64_t filters) {
      return conv_norm_relu(graph, name, x, {.filters = filters, .l2_factor = settings.regularization});
    };
    const auto pool = [&](const std::string& name, Value x, std::int64_t window) {
      return max_pool(graph, name, x, {.window = window, .stride = window, .padding = Padding::valid});
    };
    Value x = image_input(graph, "input", scaled_images(settings));
    x = pool("pool2", conv("conv2", conv("conv1", x, 32), 32), 2);
    x = pool("pool4", conv("conv4", conv("conv3", x, 64), 64), 2);
    x = conv("conv6", conv("conv5", x, 128), 128);
    x = max_pool(graph, "pool6", x, {});
    return dense(graph, "logits", x,
                 {.units = settings.outputs,
                  .weights = fan_in_uniform(graph.shape(x).elements_per_sample()),
                  .l2_factor = settings.regularization});
  };
  if (settings.image.height != settings.image.width || settings.image.height < 4) {
    fail(ExitCode::usage, "the network vgg7 requires square images of at least 4 x 4; these images are {} x {}",
         settings.image.height, settings.image.width);
  }
  return make_network("vgg7", settings, layers);
}

}  // namespace carillon
