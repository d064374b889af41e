// The networks for CIFAR-10: cifar10, resnet9. The airbench networks are in airbench.cpp, the ResNets in resnets.cpp.
#include "carillon/core/error.h"
#include "carillon/models/networks.h"
#include "kernels/conv2d/conv2d.h"
#include "kernels/dense/dense.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/image_input/image_input.h"
#include "kernels/lrn/lrn.h"
#include "kernels/pool/pool.h"
#include "src/models/layers.h"

namespace carillon {
namespace {

Initializer normal(float stddev, int number) { return {Initializer::Kind::truncated_normal, stddev, number}; }
Initializer constant(float value) { return {Initializer::Kind::constant, value}; }

const ImageInputParams resnet9_input{.mean = cifar10_mean,
                                     .deviation = cifar10_deviation,
                                     .padding = 4,
                                     .padding_mode = ImagePadding::reflect,
                                     .mirroring = ImageMirroring::random,
                                     .cutout = 8};

}  // namespace

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
Network cifar10_network(const NetworkSettings& settings) {
  const std::int64_t crop = tutorial_input.crop_height;
  if (settings.image.height < crop || settings.image.width < crop) {
    fail(ExitCode::usage, "the network cifar10 requires images of at least {} x {}; these images are {} x {}", crop,
         crop, settings.image.height, settings.image.width);
  }
  const auto layers = [settings](Graph& graph) {
    const float decay = settings.regularization;
    const ImageShape& image = settings.image;

    ImageInputParams input = tutorial_input;
    input.sample = {image.height, image.width, image.channels};
    Value x = image_input(graph, "input", input);
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

// ResNet-9, the network of the fast DAWNBench entries for CIFAR-10. Source: Page, "How to train your ResNet", 2018.
// 6,573,120 parameters for ten classes.
//
//   layer               output       weights
//   input               32x32x3                   padded by 4 (reflection), cropped, mirrored; 8x8 cut out
//   prep                32x32x64     3x3x3x64
//   layer1              32x32x128    3x3x64x128
//     pool  max 2x2     16x16x128
//     residual1, 2      16x16x128    3x3x128x128  twice; the result is added to the pool's output
//   layer2              16x16x256    3x3x128x256
//     pool  max 2x2     8x8x256
//   layer3              8x8x512      3x3x256x512
//     pool  max 2x2     4x4x512
//     residual1, 2      4x4x512      3x3x512x512  likewise
//   pool    max 4x4     512
//   logits              classes      512x10       no biases; multiplied by 0.125
//
// A batch norm and a ReLU follow each convolution. No ReLU follows a sum.
Network resnet9_network(const NetworkSettings& settings) {
  const auto layers = [settings](Graph& graph) {
    const auto conv = [&](const std::string& name, Value x, std::int64_t filters) {
      return conv_norm_relu(graph, name, x, {.filters = filters, .l2_factor = settings.regularization});
    };
    const auto pool = [&](const std::string& name, Value x, std::int64_t window) {
      return max_pool(graph, name, x, {.window = window, .stride = window, .padding = Padding::valid});
    };
    const auto residual = [&](const std::string& name, Value x, int index) {
      const std::int64_t filters = graph.shape(x)[3];
      Value y = conv(name + "/residual2", conv(name + "/residual1", x, filters), filters);
      y = drop_branch(graph, name, y, {.index = index, .count = 2}, settings);
      return add(graph, name + "/sum", y, x);
    };
    Value x = image_input(graph, "input", normalized_images(resnet9_input, settings));
    x = conv("prep", x, 64);
    x = residual("layer1", pool("layer1/pool", conv("layer1", x, 128), 2), 0);
    x = pool("layer2/pool", conv("layer2", x, 256), 2);
    x = residual("layer3", pool("layer3/pool", conv("layer3", x, 512), 2), 1);
    return logits_of_largest(graph, x, 0.125f, settings);
  };
  check_has_colours("resnet9", settings);
  const std::int64_t height = settings.image.height, width = settings.image.width;
  if (height != width || height < 8 || height >= 8 * 17) {  // the window of the last pooling may have up to 16 rows
    fail(ExitCode::usage, "the network resnet9 requires square images of 8 x 8 to 135 x 135; these images are {} x {}",
         height, width);
  }
  return make_network("resnet9", settings, layers);
}

}  // namespace carillon
