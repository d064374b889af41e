// A small VGG-style network with batch norm, for digits and other small images: pairs of 3x3 convolutions, each pair
// followed by pooling. Source: Simonyan, Zisserman, "Very deep convolutional networks for large-scale image
// recognition", 2015. 288,170 parameters for MNIST.
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
#include "carillon/models/networks.h"
#include "kernels/max_pool/max_pool.h"
#include "kernels/scale_input/scale_input.h"
#include "src/models/layers.h"

namespace carillon {

Network vgg7_network(const NetworkSettings& settings) {
  const auto layers = [settings](Graph& graph) {
    const ImageShape& image = settings.image;
    const auto conv = [&](const std::string& name, Value x, std::int64_t filters) {
      return conv_norm_relu(graph, name, x, {.filters = filters, .l2_factor = settings.regularization});
    };
    const auto pool = [&](const std::string& name, Value x, std::int64_t window) {
      return max_pool(graph, name, x, {.window = window, .stride = window, .padding = Padding::valid});
    };
    Value x = scale_input(graph, "input",
                          {.sample = {image.height, image.width, image.channels}, .scale = settings.pixel_scale});
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
