// ResNets for images of at least 32 x 32 pixels, as in torchvision: resnet18, 34, 50 (v1.5), 101 and 152. Source: He,
// Zhang, Ren, Sun, "Deep residual learning for image recognition", 2016.
//
//   layer        output at 224x224
//   input        224x224x3    ImageNet's means and deviations; cropped (padded by 4), mirrored
//   stem + ReLU  112x112x64   7x7, stride 2; batch norm
//   pool         56x56x64     max 3x3, stride 2, padded by 1
//   stage1       56x56x f     src/models/residual_stages.h; numbers of blocks: src/models/resnet_blocks.h
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
// Initial values: src/models/imagenet_resnet.h.
#include <algorithm>

#include "carillon/models/networks.h"
#include "src/models/imagenet_resnet.h"
#include "src/models/residual_stages.h"
#include "src/models/resnet_blocks.h"
#include "src/models/torch_names.h"

namespace carillon {
namespace {

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

}  // namespace carillon
