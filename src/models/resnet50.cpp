// ResNet-50 v1.5 for images of at least 32 x 32 pixels. Source: He, Zhang, Ren, Sun, "Deep residual learning for image
// recognition", 2016. 25,557,032 parameters for 1000 classes. 4.089 GMAC for an image of 224 x 224 pixels.
//
//   layer        output       blocks   layers of a block
//   input        224x224x3             cropped (padded by 4), mirrored, normalised with ImageNet's means and deviations
//   stem + ReLU  112x112x64            7x7 convolution, stride 2; batch norm
//   pool         56x56x64              max 3x3, stride 2, padded by 1
//   stage1       56x56x256    3        1x1 64,  3x3 64,  1x1 256
//   stage2       28x28x512    4        1x1 128, 3x3 128, 1x1 512; first block: 3x3 with stride 2
//   stage3       14x14x1024   6        1x1 256, 3x3 256, 1x1 1024; first block: 3x3 with stride 2
//   stage4       7x7x2048     3        1x1 512, 3x3 512, 1x1 2048; first block: 3x3 with stride 2
//   average      2048
//   logits       classes               with biases
//
// A batch norm follows each convolution. A ReLU follows the first two convolutions of a block and the sum with the
// block's input. In the first block of each stage, a 1x1 convolution and a batch norm project the input. Initial
// values: src/models/imagenet_resnet.h.
#include "carillon/models/networks.h"
#include "src/models/imagenet_resnet.h"

namespace carillon {
namespace {

constexpr std::int64_t expansion = 4;  ///< factor of the filters in a block's last convolution

struct Bottleneck {
  std::int64_t filters = 0, stride = 1;
  bool projects = false;
  float l2_factor = 0.0f;
  BlockPlace place;
};

Value bottleneck(Graph& graph, const std::string& name, Value x, const Bottleneck& block,
                 const NetworkSettings& settings, Purpose purpose) {
  const std::int64_t wide = expansion * block.filters;
  ConvNormParams last = imagenet_conv(wide, 1, 1, block.l2_factor);
  last.initial_scale = 0.0f;
  Value y = conv_norm_relu(graph, name + "/conv1", x, imagenet_conv(block.filters, 1, 1, block.l2_factor));
  y = conv_norm_relu(graph, name + "/conv2", y, imagenet_conv(block.filters, 3, block.stride, block.l2_factor));
  y = drop_branch(graph, name, conv_norm(graph, name + "/conv3", y, last), block.place, settings, purpose);
  std::optional<ConvNormParams> projection;
  if (block.projects) projection = imagenet_conv(wide, 1, block.stride, block.l2_factor);
  return end_of_residual_block(graph, name, x, y, projection);
}

}  // namespace

Network resnet50_network(const NetworkSettings& settings) {
  const auto layers = [settings](Graph& graph, Purpose purpose) {
    Value x = imagenet_stem(graph, settings, purpose);
    BlockPlace place{.count = 16};
    for (const auto& [stage, blocks] : {std::pair{1, 3}, {2, 4}, {3, 6}, {4, 3}}) {
      for (int block = 1; block <= blocks; ++block) {
        x = bottleneck(graph, "stage" + std::to_string(stage) + "/block" + std::to_string(block), x,
                       {.filters = std::int64_t{32} << stage,
                        .stride = stage > 1 && block == 1 ? 2 : 1,
                        .projects = block == 1,
                        .l2_factor = settings.regularization,
                        .place = place},
                       settings, purpose);
        ++place.index;
      }
    }
    return imagenet_logits(graph, x, settings);
  };
  check_imagenet_images("resnet50", settings);
  return {.name = "resnet50", .image = settings.image, .build_layers = layers};
}

}  // namespace carillon
