// ResNet-50 (He, Zhang, Ren, Sun, "Deep residual learning for image recognition", 2016) in today's form, v1.5, for
// images of any size from 32 x 32. 25,557,032 parameters for 1000 classes and 4.089 GMAC an image of 224 x 224:
//
//   layer        output       blocks   a block
//   input        224x224x3             cropped (padded by 4), mirrored, normalised by ImageNet's means and deviations
//   stem + ReLU  112x112x64            7x7 convolution, stride 2; batch norm
//   pool         56x56x64              max 3x3, stride 2, padded by 1
//   stage1       56x56x256    3        1x1 64,  3x3 64,  1x1 256
//   stage2       28x28x512    4        1x1 128, 3x3 128, 1x1 512; the first's 3x3 with stride 2
//   stage3       14x14x1024   6        1x1 256, 3x3 256, 1x1 1024; the first's 3x3 with stride 2
//   stage4       7x7x2048     3        1x1 512, 3x3 512, 1x1 2048; the first's 3x3 with stride 2
//   average      2048
//   logits       classes               with biases
//
// Batch norm behind each convolution; ReLU behind the first two of a block and behind its sum with the block's input,
// which a 1x1 convolution and batch norm project in the first block of each stage. Initial values after Goyal and
// others, "Accurate, large minibatch SGD", 2017, section 5.1: convolutions of variance 2 / (kernel^2 * filters), logits
// of deviation 0.01, both cut at two deviations; a block's last gamma 0, so that it begins as the identity.
#include <cmath>

#include "carillon/core/error.h"
#include "carillon/models/networks.h"
#include "kernels/avg_pool/avg_pool.h"
#include "kernels/max_pool/max_pool.h"
#include "src/models/layers.h"

namespace carillon {
namespace {

constexpr std::int64_t least_side = 32;
constexpr std::int64_t expansion = 4;  ///< of a block's filters by its last convolution

const NormalizeImagesParams input_form{
    .mean = {0.485f, 0.456f, 0.406f}, .deviation = {0.229f, 0.224f, 0.225f, 1.0f}, .padding = 4};

/// A normal distribution of that deviation, cut at two deviations of what is drawn.
Initializer normal(double deviation) {
  constexpr double kept = 0.87962566103423978;  // of the deviation, by the cut
  return {Initializer::Kind::truncated_normal, static_cast<float>(deviation / kept)};
}

ConvNormParams conv_of(std::int64_t filters, std::int64_t kernel, std::int64_t stride, float l2_factor) {
  const double deviation = std::sqrt(2.0 / static_cast<double>(kernel * kernel * filters));
  return {.filters = filters, .kernel = kernel, .stride = stride, .l2_factor = l2_factor, .weights = normal(deviation)};
}

struct Bottleneck {
  std::int64_t filters = 0, stride = 1;
  bool projects = false;
  float l2_factor = 0.0f;
};

Value bottleneck(Graph& graph, const std::string& name, Value x, const Bottleneck& block) {
  const std::int64_t wide = expansion * block.filters;
  ConvNormParams last = conv_of(wide, 1, 1, block.l2_factor);
  last.initial_scale = 0.0f;
  Value y = conv_norm_relu(graph, name + "/conv1", x, conv_of(block.filters, 1, 1, block.l2_factor));
  y = conv_norm_relu(graph, name + "/conv2", y, conv_of(block.filters, 3, block.stride, block.l2_factor));
  y = conv_norm(graph, name + "/conv3", y, last);
  std::optional<ConvNormParams> projection;
  if (block.projects) projection = conv_of(wide, 1, block.stride, block.l2_factor);
  return end_of_residual_block(graph, name, x, y, projection);
}

}  // namespace

Network resnet50_network(const NetworkSettings& settings) {
  const auto layers = [settings](Graph& graph, Purpose purpose) {
    const float decay = settings.regularization;
    Value x = normalized_input(graph, input_form, settings, purpose);
    x = conv_norm_relu(graph, "stem", x, conv_of(64, 7, 2, decay));
    x = max_pool(graph, "pool", x, {.window = 3, .stride = 2, .padding = Padding::symmetric(1)});
    for (const auto& [stage, blocks] : {std::pair{1, 3}, {2, 4}, {3, 6}, {4, 3}}) {
      for (int block = 1; block <= blocks; ++block) {
        x = bottleneck(graph, "stage" + std::to_string(stage) + "/block" + std::to_string(block), x,
                       {.filters = std::int64_t{32} << stage,
                        .stride = stage > 1 && block == 1 ? 2 : 1,
                        .projects = block == 1,
                        .l2_factor = decay});
      }
    }
    x = global_avg_pool(graph, "average", x);
    return dense(graph, "logits", x, {.units = settings.outputs, .weights = normal(0.01), .l2_factor = decay});
  };
  check_has_colours("resnet50", settings);
  if (settings.image.height < least_side || settings.image.width < least_side) {
    fail(ExitCode::usage, "the network resnet50 takes images of at least {} x {}; these are {} x {}", least_side,
         least_side, settings.image.height, settings.image.width);
  }
  return {.name = "resnet50", .image = settings.image, .build_layers = layers};
}

}  // namespace carillon
