// ResNet-18, with the stem for ImageNet (resnet18) and with the stem for CIFAR-10 (resnet18_cifar). Source: He, Zhang,
// Ren, Sun, "Deep residual learning for image recognition", 2016; torchvision; pytorch-cifar.
//
//                 resnet18                          resnet18_cifar
//   parameters    11,689,512 for 1000 classes       11,173,962 for ten classes
//   work          1.814 GMAC at 224x224             0.555 GMAC at 32x32
//   layer         output                            output
//   input         224x224x3    ImageNet's means     32x32x3     CIFAR-10's means; both cropped (padded by 4), mirrored
//   stem + ReLU   112x112x64   7x7, stride 2        32x32x64    3x3
//   pool          56x56x64     max 3x3, stride 2                none
//   stage1        56x56x64                          32x32x64    2 blocks of 3x3 64,  3x3 64
//   stage2        28x28x128                         16x16x128   2 blocks of 3x3 128, 3x3 128; the first with stride 2
//   stage3        14x14x256                         8x8x256     2 blocks of 3x3 256, 3x3 256; the first with stride 2
//   stage4        7x7x512                           4x4x512     2 blocks of 3x3 512, 3x3 512; the first with stride 2
//   average       512                               512
//   logits        classes, with biases              classes, with biases
//
// A batch norm follows each convolution. A ReLU follows the first convolution of a block and the sum with the block's
// input. If the shapes of input and output differ, a 1x1 convolution and a batch norm project the input. Initial values
// of resnet18: src/models/imagenet_resnet.h; of resnet18_cifar: PyTorch's.
#include "carillon/models/networks.h"
#include "kernels/avg_pool/avg_pool.h"
#include "src/models/cifar10_pixels.h"
#include "src/models/imagenet_resnet.h"
#include "src/models/layers.h"

namespace carillon {
namespace {

/// pytorch-cifar's deviations: the mean over all images of the standard deviation within an image.
const NormalizeImagesParams cifar_input{
    .mean = cifar10_mean, .deviation = {0.2023f, 0.1994f, 0.2010f, 1.0f}, .padding = 4};

ConvNormParams cifar_conv(std::int64_t filters, std::int64_t kernel, std::int64_t stride, float l2_factor) {
  return {.filters = filters, .kernel = kernel, .stride = stride, .l2_factor = l2_factor};
}

/// What the blocks of the two networks do not share.
struct BlockForm {
  ConvNormParams (*conv)(std::int64_t filters, std::int64_t kernel, std::int64_t stride, float l2_factor);
  float last_scale = 1.0f;  ///< initial gamma of a block's last batch norm
  float l2_factor = 0.0f;
  /// Adds stochastic depth to the branch of a block (drop_branch).
  std::function<Value(Graph& graph, const std::string& name, Value branch, const BlockPlace& place)> drop = nullptr;
};

auto dropper(const NetworkSettings& settings, Purpose purpose) {
  return [settings, purpose](Graph& graph, const std::string& name, Value branch, const BlockPlace& place) {
    return drop_branch(graph, name, branch, place, settings, purpose);
  };
}

Value basic_block(Graph& graph, const std::string& name, Value x, std::int64_t filters, std::int64_t stride,
                  const BlockPlace& place, const BlockForm& form) {
  ConvNormParams second = form.conv(filters, 3, 1, form.l2_factor);
  second.initial_scale = form.last_scale;
  std::optional<ConvNormParams> projection;
  if (stride != 1 || graph.shape(x)[3] != filters) projection = form.conv(filters, 1, stride, form.l2_factor);
  Value y = conv_norm_relu(graph, name + "/conv1", x, form.conv(filters, 3, stride, form.l2_factor));
  y = form.drop(graph, name, conv_norm(graph, name + "/conv2", y, second), place);
  return end_of_residual_block(graph, name, x, y, projection);
}

Value four_stages(Graph& graph, Value x, const BlockForm& form) {
  BlockPlace place{.count = 8};
  for (const int stage : {1, 2, 3, 4}) {
    for (const int block : {1, 2}) {
      x = basic_block(graph, "stage" + std::to_string(stage) + "/block" + std::to_string(block), x,
                      std::int64_t{32} << stage, stage > 1 && block == 1 ? 2 : 1, place, form);
      ++place.index;
    }
  }
  return x;
}

}  // namespace

Network resnet18_network(const NetworkSettings& settings) {
  const auto layers = [settings](Graph& graph, Purpose purpose) {
    const Value x = imagenet_stem(graph, settings, purpose);
    const BlockForm form{.conv = imagenet_conv,
                         .last_scale = 0.0f,
                         .l2_factor = settings.regularization,
                         .drop = dropper(settings, purpose)};
    return imagenet_logits(graph, four_stages(graph, x, form), settings);
  };
  check_imagenet_images("resnet18", settings);
  return {.name = "resnet18", .image = settings.image, .build_layers = layers};
}

Network resnet18_cifar_network(const NetworkSettings& settings) {
  const auto layers = [settings](Graph& graph, Purpose purpose) {
    const float decay = settings.regularization;
    Value x = normalized_input(graph, cifar_input, settings, purpose);
    x = conv_norm_relu(graph, "stem", x, cifar_conv(64, 3, 1, decay));
    x = four_stages(graph, x, {.conv = cifar_conv, .l2_factor = decay, .drop = dropper(settings, purpose)});
    x = global_avg_pool(graph, "average", x);
    const Initializer initial = fan_in_uniform(graph.shape(x).elements_per_sample());
    return dense(graph, "logits", x,
                 {.units = settings.outputs, .weights = initial, .biases = initial, .l2_factor = decay});
  };
  check_has_colours("resnet18_cifar", settings);
  return {.name = "resnet18_cifar", .image = settings.image, .build_layers = layers};
}

}  // namespace carillon
