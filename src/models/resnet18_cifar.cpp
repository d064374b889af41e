// ResNet-18 with the stem for CIFAR-10: 11,173,962 parameters for ten classes, 0.555 GMAC at 32x32. Source: He, Zhang,
// Ren, Sun, "Deep residual learning for image recognition", 2016; pytorch-cifar.
//
//   layer         output
//   input         32x32x3     CIFAR-10's means; cropped (padded by 4), mirrored
//   stem + ReLU   32x32x64    3x3; batch norm
//   stage1        32x32x64    2 basic blocks (src/models/residual_stages.h)
//   stage2        16x16x128   2 basic blocks
//   stage3        8x8x256     2 basic blocks
//   stage4        4x4x512     2 basic blocks
//   average       512
//   logits        classes, with biases
//
// Initial values: PyTorch's.
#include "carillon/models/networks.h"
#include "kernels/avg_pool/avg_pool.h"
#include "src/models/layers.h"
#include "src/models/residual_stages.h"

namespace carillon {
namespace {

/// pytorch-cifar's deviations: the mean over all images of the standard deviation within an image.
const NormalizeImagesParams cifar_input{
    .mean = cifar10_mean, .deviation = {0.2023f, 0.1994f, 0.2010f, 1.0f}, .padding = 4};

ConvNormParams cifar_conv(std::int64_t filters, std::int64_t kernel, std::int64_t stride, float l2_factor) {
  return {.filters = filters, .kernel = kernel, .stride = stride, .l2_factor = l2_factor};
}

}  // namespace

Network resnet18_cifar_network(const NetworkSettings& settings) {
  const auto layers = [settings](Graph& graph) {
    const float decay = settings.regularization;
    Value x = normalized_input(graph, cifar_input, settings);
    x = conv_norm_relu(graph, "stem", x, cifar_conv(64, 3, 1, decay));
    x = residual_stages(graph, x, {.block_counts = {2, 2, 2, 2}, .conv = cifar_conv}, settings);
    x = global_avg_pool(graph, "average", x);
    const Initializer initial = fan_in_uniform(graph.shape(x).elements_per_sample());
    return dense(graph, "logits", x,
                 {.units = settings.outputs, .weights = initial, .biases = initial, .l2_factor = decay});
  };
  check_has_colours("resnet18_cifar", settings);
  return make_network("resnet18_cifar", settings, layers);
}

}  // namespace carillon
