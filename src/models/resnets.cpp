// The ResNets for ImageNet and for CIFAR-10. Source: He, Zhang, Ren, Sun, "Deep residual learning for image
// recognition", 2016.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>

#include "carillon/models/networks.h"
#include "kernels/pool/pool.h"
#include "src/models/layers.h"
#include "src/models/pretrained.h"

namespace carillon {
namespace {

/// Residual stages: the four stages of a ResNet. A bottleneck has its stride in the 3x3 convolution (v1.5, as in
/// torchvision).
///
///   block        layers                                   output
///   basic        3x3 f, 3x3 f                             f channels
///   bottleneck   1x1 f, 3x3 f, 1x1 4f                     4f channels
///
/// Stage s has f = 32 * 2^s filters. The first block of stages 2 to 4 has stride 2. A batch norm follows each
/// convolution. A ReLU follows each batch norm except the block's last one. The block's input is added to the result of
/// the last batch norm, and a ReLU follows this sum. If the shapes of input and output differ, a 1x1 convolution and a
/// batch norm first project the input. Names: "stage1/block1/conv1", ...
struct ResidualStages {
  std::array<int, 4> block_counts{};
  bool has_bottlenecks = false;
  ConvNormParams (*conv)(std::int64_t filters, std::int64_t kernel, std::int64_t stride, float l2_factor) = nullptr;
  float last_scale = 1.0f;  ///< initial gamma of the last batch norm of each block
};

constexpr std::int64_t expansion = 4;  ///< factor of the filters in a bottleneck's last convolution

struct Block {
  std::string name;
  std::int64_t filters = 0, stride = 1;
  BlockPlace place;
};

Value residual_block(Graph& graph, Value x, const Block& block, const ResidualStages& stages,
                     const NetworkSettings& settings) {
  const auto conv = [&](std::int64_t filters, std::int64_t kernel, std::int64_t stride) {
    return stages.conv(filters, kernel, stride, settings.regularization);
  };
  const std::int64_t wide = stages.has_bottlenecks ? expansion * block.filters : block.filters;
  ConvNormParams last = stages.has_bottlenecks ? conv(wide, 1, 1) : conv(wide, 3, 1);
  last.initial_scale = stages.last_scale;
  Value y = x;
  if (stages.has_bottlenecks) {
    y = conv_norm_relu(graph, block.name + "/conv1", y, conv(block.filters, 1, 1));
    y = conv_norm_relu(graph, block.name + "/conv2", y, conv(block.filters, 3, block.stride));
    y = conv_norm(graph, block.name + "/conv3", y, last);
  } else {
    y = conv_norm_relu(graph, block.name + "/conv1", y, conv(block.filters, 3, block.stride));
    y = conv_norm(graph, block.name + "/conv2", y, last);
  }
  y = drop_branch(graph, block.name, y, block.place, settings);
  std::optional<ConvNormParams> projection;
  if (block.stride != 1 || graph.shape(x)[3] != wide) projection = conv(wide, 1, block.stride);
  return end_of_residual_block(graph, block.name, x, y, projection);
}

/// Adds the stages to the graph. `x`: the output of the stem.
Value residual_stages(Graph& graph, Value x, const ResidualStages& stages, const NetworkSettings& settings) {
  const std::array<int, 4>& counts = stages.block_counts;
  BlockPlace place{.count = std::accumulate(counts.begin(), counts.end(), 0)};
  for (int stage = 1; stage <= 4; ++stage) {
    for (int block = 1; block <= counts[static_cast<std::size_t>(stage - 1)]; ++block) {
      graph.set_block(place.index);
      x = residual_block(graph, x,
                         {.name = fmt::format("stage{}/block{}", stage, block),
                          .filters = std::int64_t{32} << stage,
                          .stride = stage > 1 && block == 1 ? 2 : 1,
                          .place = place},
                         stages, settings);
      ++place.index;
    }
  }
  graph.set_block(-1);
  return x;
}

/// The numbers of blocks in each network. Source: table 1 of the paper.
struct ResNetBlocks {
  std::string_view network;
  std::array<int, 4> counts;     ///< number of blocks, by stage
  bool has_bottlenecks = false;  ///< true: bottlenecks; false: basic blocks
};

constexpr std::array<ResNetBlocks, 5> imagenet_resnets{{{"resnet18", {2, 2, 2, 2}, false},
                                                        {"resnet34", {3, 4, 6, 3}, false},
                                                        {"resnet50", {3, 4, 6, 3}, true},
                                                        {"resnet101", {3, 4, 23, 3}, true},
                                                        {"resnet152", {3, 8, 36, 3}, true}}};

constexpr TorchName torch_layers[] = {{"stem", "conv1"},
                                      {"stem/norm", "bn1"},
                                      {"conv1", "conv1"},
                                      {"conv1/norm", "bn1"},
                                      {"conv2", "conv2"},
                                      {"conv2/norm", "bn2"},
                                      {"conv3", "conv3"},
                                      {"conv3/norm", "bn3"},
                                      {"projection", "downsample.0"},
                                      {"projection/norm", "downsample.1"},
                                      {"logits", "fc"}};
constexpr TorchFamily torch_family{.stage = "layer", .first_stage = 1, .block = "", .layers = torch_layers};

// ResNets for images of at least 32 x 32 pixels, as in torchvision: resnet18, 34, 50 (v1.5), 101 and 152. Source: He,
// Zhang, Ren, Sun, "Deep residual learning for image recognition", 2016.
//
//   layer        output at 224x224
//   input        224x224x3    ImageNet's means and deviations; cropped (padded by 4), mirrored
//   stem + ReLU  112x112x64   7x7, stride 2; batch norm
//   pool         56x56x64     max 3x3, stride 2, padded by 1
//   stage1       56x56x f     ResidualStages; numbers of blocks: imagenet_resnets
//   stage2       28x28x2f
//   stage3       14x14x4f
//   stage4       7x7  x8f
//   average      8f
//   logits       classes, with biases
//
// f is 64 for basic blocks (18, 34) and 256 for bottlenecks.
//
//              parameters for 1000 classes   GMAC at 224x224
//   resnet18   11,689,512                    1.814
//   resnet34   21,797,672                    3.664
//   resnet50   25,557,032                    4.089
//   resnet101  44,549,160                    7.801
//   resnet152  60,192,808                    11.514
//
// Initial values: src/models/layers.h.
Network imagenet_resnet(std::string_view name, const NetworkSettings& settings) {
  const ResNetBlocks& blocks = *std::ranges::find(imagenet_resnets, name, &ResNetBlocks::network);
  const ResidualStages stages{.block_counts = blocks.counts,
                              .has_bottlenecks = blocks.has_bottlenecks,
                              .conv = imagenet_conv,
                              .last_scale = 0.0f};
  const auto layers = [stages, settings](Graph& graph) {
    const Value x = imagenet_stem(graph, settings);
    return imagenet_logits(graph, residual_stages(graph, x, stages, settings), settings);
  };
  check_imagenet_images(name, settings);
  return with_torch_names(make_network(std::string(name), settings, layers), torch_family);
}

}  // namespace

Network resnet18_network(const NetworkSettings& settings) { return imagenet_resnet("resnet18", settings); }
Network resnet34_network(const NetworkSettings& settings) { return imagenet_resnet("resnet34", settings); }
Network resnet50_network(const NetworkSettings& settings) { return imagenet_resnet("resnet50", settings); }
Network resnet101_network(const NetworkSettings& settings) { return imagenet_resnet("resnet101", settings); }
Network resnet152_network(const NetworkSettings& settings) { return imagenet_resnet("resnet152", settings); }

namespace {

/// pytorch-cifar's deviations. Each deviation is the mean, over all images, of the standard deviation within an image.
const ImageInputParams cifar_input{.mean = cifar10_mean,
                                   .deviation = {0.2023f, 0.1994f, 0.2010f, 1.0f},
                                   .padding = 4,
                                   .mirroring = ImageMirroring::random};

ConvNormParams cifar_conv(std::int64_t filters, std::int64_t kernel, std::int64_t stride, float l2_factor) {
  return {.filters = filters, .kernel = kernel, .stride = stride, .l2_factor = l2_factor};
}

}  // namespace

// ResNet-18 with the stem for CIFAR-10: 11,173,962 parameters for ten classes, 0.555 GMAC at 32x32. Source: He, Zhang,
// Ren, Sun, "Deep residual learning for image recognition", 2016; pytorch-cifar.
//
//   layer         output
//   input         32x32x3     CIFAR-10's means; cropped (padded by 4), mirrored
//   stem + ReLU   32x32x64    3x3; batch norm
//   stage1        32x32x64    2 basic blocks (ResidualStages)
//   stage2        16x16x128   2 basic blocks
//   stage3        8x8x256     2 basic blocks
//   stage4        4x4x512     2 basic blocks
//   average       512
//   logits        classes, with biases
//
// Initial values: PyTorch's.
Network resnet18_cifar_network(const NetworkSettings& settings) {
  const auto layers = [settings](Graph& graph) {
    const float decay = settings.regularization;
    Value x = image_input(graph, "input", normalized_images(cifar_input, settings));
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
