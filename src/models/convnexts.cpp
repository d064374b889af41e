// ConvNeXts, as in timm: convnext_tiny, convnext_small and convnext_base. Source: Liu and others, "A ConvNet for the
// 2020s", 2022.
//
//   layer                 output at 224x224
//   input                 224x224x3   ImageNet's means and deviations; cropped (padded by 4), mirrored
//   stem                  56x56xw     4x4, stride 4; layer norm
//   stage1                56x56xw
//   stage2/downsample     28x28x2w    layer norm; 2x2, stride 2
//   stage2                28x28x2w
//   stage3, stage4        14x14x4w, 7x7x8w, each after its downsample
//   average, average/norm 8w
//   logits                classes, with biases
//
// A block of f channels is x + scale(project(GELU(expand(norm(depthwise(x)))))): depthwise is a 7x7 convolution, expand
// has 4f outputs per position, and project has f outputs. depthwise, expand and project have biases. scale multiplies
// each channel by a trained factor, initially 10^-6.
//
//           w     blocks of the stages   parameters for 1000 classes   GMAC at 224x224
//   tiny     96   3, 3,  9, 3            28,589,128                     4.456
//   small    96   3, 3, 27, 3            50,223,688                     8.684
//   base    128   3, 3, 27, 3            88,591,464                    15.355
//
// Initial weights are truncated normal, with deviation 0.02 after the truncation; biases are 0.
#include <fmt/format.h>

#include <array>
#include <numeric>
#include <string_view>

#include "carillon/models/networks.h"
#include "kernels/depthwise_conv2d/depthwise_conv2d.h"
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/pool/pool.h"
#include "kernels/scale_channels/scale_channels.h"
#include "src/models/layers.h"
#include "src/models/pretrained.h"

namespace carillon {
namespace {

constexpr std::int64_t expansion = 4, depthwise_kernel = 7;
constexpr float epsilon = 1e-6f;  ///< epsilon of the layer norms

struct ConvNextForm {
  std::int64_t width = 0;  ///< channels of the first stage
  std::array<int, 4> block_counts{};
};

Value norm(Graph& graph, const std::string& name, Value x) { return layer_norm(graph, name, x, {.epsilon = epsilon}); }

/// Adds a convolution over areas that do not overlap: the stride equals the size of the filters.
Value area_conv(Graph& graph, const std::string& name, Value x, std::int64_t filters, std::int64_t side,
                const NetworkSettings& settings) {
  return conv2d(graph, name, x,
                {.filters = filters,
                 .kernel = side,
                 .stride = side,
                 .padding = Padding::valid,
                 .weights = normal_after_cut(0.02),
                 .l2_factor = settings.regularization});
}

Value convnext_block(Graph& graph, const std::string& name, Value x, const BlockPlace& place,
                     const NetworkSettings& settings) {
  const std::int64_t channels = graph.shape(x)[3];
  Value y = depthwise_conv2d(graph, name + "/depthwise", x,
                             {.kernel = depthwise_kernel,
                              .padding = Padding::symmetric(depthwise_kernel / 2),
                              .weights = normal_after_cut(0.02),
                              .l2_factor = settings.regularization});
  y = norm(graph, name + "/norm", y);
  y = position_dense(graph, name + "/expand", y, expansion * channels, settings);
  y = gelu(graph, name + "/gelu", y);
  y = position_dense(graph, name + "/project", y, channels, settings);
  y = scale_channels(graph, name + "/scale", y, {.initial_factor = 1e-6f});
  y = drop_branch(graph, name, y, place, settings);
  return add(graph, name + "/sum", y, x);
}

Value convnext_stages(Graph& graph, Value x, const ConvNextForm& form, const NetworkSettings& settings) {
  const std::array<int, 4>& counts = form.block_counts;
  BlockPlace place{.count = std::accumulate(counts.begin(), counts.end(), 0)};
  for (int stage = 1; stage <= 4; ++stage) {
    const std::string name = fmt::format("stage{}", stage);
    if (stage > 1) {
      x = norm(graph, name + "/downsample/norm", x);
      x = area_conv(graph, name + "/downsample", x, form.width << (stage - 1), 2, settings);
    }
    for (int block = 1; block <= counts[static_cast<std::size_t>(stage - 1)]; ++block) {
      graph.set_block(place.index);
      x = convnext_block(graph, fmt::format("{}/block{}", name, block), x, place, settings);
      ++place.index;
    }
    graph.set_block(-1);
  }
  return x;
}

constexpr TorchName torch_layers[] = {{"stem", "stem.0"},
                                      {"stem/norm", "stem.1"},
                                      {"downsample/norm", "downsample.0"},
                                      {"downsample", "downsample.1"},
                                      {"depthwise", "conv_dw"},
                                      {"norm", "norm"},
                                      {"expand", "mlp.fc1"},
                                      {"project", "mlp.fc2"},
                                      {"average/norm", "head.norm"},
                                      {"logits", "head.fc"}};
constexpr TorchName torch_arrays[] = {{"scale/gamma", "gamma"}};
constexpr TorchFamily torch_family{
    .stage = "stages.", .block = "blocks.", .layers = torch_layers, .arrays = torch_arrays};

Network convnext(std::string_view name, const ConvNextForm& form, const NetworkSettings& settings) {
  const auto layers = [form, settings](Graph& graph) {
    Value x = imagenet_input(graph, settings);
    x = area_conv(graph, "stem", x, form.width, 4, settings);
    x = norm(graph, "stem/norm", x);
    x = convnext_stages(graph, x, form, settings);
    x = norm(graph, "average/norm", global_avg_pool(graph, "average", x));
    return dense(graph, "logits", x,
                 {.units = settings.outputs, .weights = normal_after_cut(0.02), .l2_factor = settings.regularization});
  };
  check_imagenet_images(name, settings);
  return with_torch_names(make_network(std::string(name), settings, layers), torch_family);
}

}  // namespace

Network convnext_tiny_network(const NetworkSettings& settings) {
  return convnext("convnext_tiny", {.width = 96, .block_counts = {3, 3, 9, 3}}, settings);
}
Network convnext_small_network(const NetworkSettings& settings) {
  return convnext("convnext_small", {.width = 96, .block_counts = {3, 3, 27, 3}}, settings);
}
Network convnext_base_network(const NetworkSettings& settings) {
  return convnext("convnext_base", {.width = 128, .block_counts = {3, 3, 27, 3}}, settings);
}

}  // namespace carillon
