// The network of TensorFlow's CIFAR-10 tutorial. Its input is a 24x24 crop of each 32x32 image.
//
//   layer                    output        weights      stddev  bias  weight decay
//   input                    24x24x3
//   conv1 + ReLU             24x24x64      5x5x3x64     0.05    0.0   0
//   pool1   max 3x3 / 2      12x12x64
//   norm1   LRN              12x12x64
//   conv2 + ReLU             12x12x64      5x5x64x64    0.05    0.1   0
//   norm2   LRN              12x12x64
//   pool2   max 3x3 / 2      6x6x64
//   local3 + ReLU            384           2304x384     0.04    0.1   0.004
//   local4 + ReLU            192           384x192      0.04    0.1   0.004
//   softmax_linear           10            192x10       1/192   0.0   0
#include "carillon/core/error.h"
#include "carillon/models/networks.h"
#include "kernels/cifar_distort/cifar_distort.h"
#include "kernels/conv2d/conv2d.h"
#include "kernels/dense/dense.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/lrn/lrn.h"
#include "kernels/max_pool/max_pool.h"

namespace carillon {
namespace {

constexpr std::int64_t crop = 24;

Initializer normal(float stddev, int number) { return {Initializer::Kind::truncated_normal, stddev, number}; }
Initializer constant(float value) { return {Initializer::Kind::constant, value}; }

}  // namespace

Network cifar10_network(const NetworkSettings& settings) {
  if (settings.image.height < crop || settings.image.width < crop) {
    fail(ExitCode::usage, "the network cifar10 requires images of at least {} x {}; these images are {} x {}", crop,
         crop, settings.image.height, settings.image.width);
  }
  const auto layers = [settings](Graph& graph) {
    const float decay = settings.regularization;
    const ImageShape& image = settings.image;

    Value x =
        cifar_distort(graph, "input",
                      {.source = {image.channels, image.height, image.width}, .crop_height = crop, .crop_width = crop});
    x = conv2d(graph, "conv1", x, {.filters = 64, .kernel = 5, .weights = normal(0.05f, 0), .biases = constant(0.0f)});
    x = relu(graph, "conv1/relu", x);
    x = max_pool(graph, "pool1", x, {.window = 3, .stride = 2});
    x = lrn(graph, "norm1", x);
    x = conv2d(graph, "conv2", x, {.filters = 64, .kernel = 5, .weights = normal(0.05f, 2), .biases = constant(0.1f)});
    x = relu(graph, "conv2/relu", x);
    x = lrn(graph, "norm2", x);
    x = max_pool(graph, "pool2", x, {.window = 3, .stride = 2});
    x = dense(graph, "local3", x,
              {.units = 384, .weights = normal(0.04f, 4), .biases = constant(0.1f), .l2_factor = decay});
    x = relu(graph, "local3/relu", x);
    x = dense(graph, "local4", x,
              {.units = 192, .weights = normal(0.04f, 6), .biases = constant(0.1f), .l2_factor = decay});
    x = relu(graph, "local4/relu", x);
    return dense(graph, "softmax_linear", x,
                 {.units = settings.outputs, .weights = normal(1.0f / 192.0f, 8), .biases = constant(0.0f)});
  };
  return make_network("cifar10", settings, layers);
}

}  // namespace carillon
