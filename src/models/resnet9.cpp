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
#include "carillon/models/networks.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/max_pool/max_pool.h"
#include "src/models/layers.h"

namespace carillon {
namespace {

const NormalizeImagesParams input_form{.mean = cifar10_mean,
                                       .deviation = cifar10_deviation,
                                       .padding = 4,
                                       .padding_mode = ImagePadding::reflect,
                                       .cutout = 8};

}  // namespace

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
    Value x = normalized_input(graph, input_form, settings);
    x = conv("prep", x, 64);
    x = residual("layer1", pool("layer1/pool", conv("layer1", x, 128), 2), 0);
    x = pool("layer2/pool", conv("layer2", x, 256), 2);
    x = residual("layer3", pool("layer3/pool", conv("layer3", x, 512), 2), 1);
    x = max_pool(graph, "pool", x, {});
    x = dense(graph, "logits", x,
              {.units = settings.outputs,
               .weights = fan_in_uniform(graph.shape(x).elements_per_sample()),
               .biases = std::nullopt,
               .l2_factor = settings.regularization});
    return scale(graph, "logits/scale", x, 0.125f);
  };
  check_has_colours("resnet9", settings);
  const std::int64_t height = settings.image.height, width = settings.image.width;
  if (height != width || height < 8 || height >= 8 * 17) {  // the last pooling's window has up to 16 rows
    fail(ExitCode::usage, "the network resnet9 requires square images of 8 x 8 to 135 x 135; these images are {} x {}",
         height, width);
  }
  return make_network("resnet9", settings, layers);
}

}  // namespace carillon
