#include "src/models/torch_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <span>
#include <utility>

#include "carillon/core/error.h"

namespace carillon {
namespace {

/// The name of a layer in Carillon and in PyTorch.
using Names = std::pair<std::string_view, std::string_view>;

/// The names of a family of networks. Blocks, and stages of blocks, have numbers; Carillon's numbers start at 1:
/// "stage1/block1/conv1".
struct Family {
  std::string_view stage;  ///< PyTorch's text before the number of a stage; empty: the blocks have no stages
  int first_stage = 0;     ///< PyTorch's number of the first stage
  std::string_view block;  ///< the text before the number of a block, which starts at 0
  std::span<const Names> layers;
  std::span<const Names> arrays = {};  ///< whole names of arrays, within a block if it has any
};

constexpr Names resnet_layers[] = {{"stem", "conv1"},
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
constexpr Family resnets{.stage = "layer", .first_stage = 1, .block = "", .layers = resnet_layers};

constexpr Names convnext_layers[] = {{"stem", "stem.0"},
                                     {"stem/norm", "stem.1"},
                                     {"downsample/norm", "downsample.0"},
                                     {"downsample", "downsample.1"},
                                     {"depthwise", "conv_dw"},
                                     {"norm", "norm"},
                                     {"expand", "mlp.fc1"},
                                     {"project", "mlp.fc2"},
                                     {"average/norm", "head.norm"},
                                     {"logits", "head.fc"}};
constexpr Names convnext_arrays[] = {{"scale/gamma", "gamma"}};
constexpr Family convnexts{
    .stage = "stages.", .block = "blocks.", .layers = convnext_layers, .arrays = convnext_arrays};

constexpr Names transformer_layers[] = {
    {"patches", "patch_embed.proj"},    {"norm1", "norm1"}, {"attention/qkv", "attn.qkv"},
    {"attention/project", "attn.proj"}, {"norm2", "norm2"}, {"mlp/expand", "mlp.fc1"},
    {"mlp/project", "mlp.fc2"},         {"norm", "norm"},   {"logits", "head"}};
constexpr Names transformer_arrays[] = {{"tokens/class", "cls_token"}, {"tokens/positions", "pos_embed"}};
constexpr Family transformers{
    .stage = "", .block = "blocks.", .layers = transformer_layers, .arrays = transformer_arrays};

/// A network, and the arrays that distinguish it from the other networks of its family.
struct NamedNetwork {
  std::string_view name;
  const Family* family;
  std::string_view array;               ///< PyTorch's name of an array whose shape differs within the family
  std::array<std::int64_t, 3> extents;  ///< first extents of `array`; 0: any
  std::string_view last;                ///< an array of the last block of the longest stage
  std::string_view absent;              ///< an array that this network lacks and a larger one has
};

constexpr std::string_view conv1 = "layer1.0.conv1.weight", stem = "stem.0.bias", patches = "patch_embed.proj.weight";
constexpr std::string_view block12 = "blocks.11.norm1.weight", block13 = "blocks.12.norm1.weight";
constexpr NamedNetwork networks[] = {
    {"resnet18", &resnets, conv1, {64, 64, 3}, "layer3.1.bn2.weight", "layer3.2.bn2.weight"},
    {"resnet34", &resnets, conv1, {64, 64, 3}, "layer3.5.bn2.weight", "layer3.5.bn3.weight"},
    {"resnet50", &resnets, conv1, {64, 64, 1}, "layer3.5.bn3.weight", "layer3.6.bn3.weight"},
    {"resnet101", &resnets, conv1, {64, 64, 1}, "layer3.22.bn3.weight", "layer3.23.bn3.weight"},
    {"resnet152", &resnets, conv1, {64, 64, 1}, "layer3.35.bn3.weight", "layer3.36.bn3.weight"},
    {"convnext_tiny", &convnexts, stem, {96}, "stages.2.blocks.8.gamma", "stages.2.blocks.9.gamma"},
    {"convnext_small", &convnexts, stem, {96}, "stages.2.blocks.26.gamma", "stages.2.blocks.27.gamma"},
    {"convnext_base", &convnexts, stem, {128}, "stages.2.blocks.26.gamma", "stages.2.blocks.27.gamma"},
    {"vit_tiny_patch16_224", &transformers, patches, {192, 3, 16}, block12, block13},
    {"vit_small_patch16_224", &transformers, patches, {384, 3, 16}, block12, block13},
    {"vit_base_patch16_224", &transformers, patches, {768, 3, 16}, block12, block13},
    {"vit_tiny_patch4_32", &transformers, patches, {192, 3, 4}, block12, block13},
};

constexpr Names kinds[] = {{"weights", "weight"},
                           {"biases", "bias"},
                           {"gamma", "weight"},
                           {"beta", "bias"},
                           {"moving_mean", "running_mean"},
                           {"moving_variance", "running_var"}};

/// PyTorch's name; nullopt: PyTorch has no such array.
std::optional<std::string_view> find_name(std::span<const Names> names, std::string_view ours) {
  const auto found = std::ranges::find(names, ours, &Names::first);
  return found != names.end() ? std::optional(found->second) : std::nullopt;
}

bool starts_with(const std::vector<std::int64_t>& shape, const std::array<std::int64_t, 3>& extents) {
  for (std::size_t axis = 0; axis < extents.size() && extents[axis] != 0; ++axis) {
    if (axis >= shape.size() || shape[axis] != extents[axis]) return false;
  }
  return true;
}

/// Removes "word12/" from the start of `rest` and returns 12. Returns nullopt if `rest` starts with another text.
std::optional<int> take_number(std::string_view word, std::string_view& rest) {
  if (!rest.starts_with(word)) return std::nullopt;
  const char* const begin = rest.data() + word.size();
  int number = 0;
  const auto [end, error] = std::from_chars(begin, rest.data() + rest.size(), number);
  if (error != std::errc{} || end == rest.data() + rest.size() || *end != '/') return std::nullopt;
  rest.remove_prefix(static_cast<std::size_t>(end + 1 - rest.data()));
  return number;
}

}  // namespace

bool has_torch_names(std::string_view network) {
  return std::ranges::find(networks, network, &NamedNetwork::name) != std::end(networks);
}

std::string networks_with_torch_names() {
  std::vector<std::string_view> names;
  for (const NamedNetwork& network : networks) names.push_back(network.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string torch_name(std::string_view network, std::string_view array) {
  const auto* const found = std::ranges::find(networks, network, &NamedNetwork::name);
  check(found != std::end(networks), "PyTorch's names of this network are not known");
  const Family& family = *found->family;
  std::string_view rest = array;
  std::string place;
  if (const auto stage = take_number("stage", rest)) {
    place = fmt::format("{}{}.", family.stage, *stage - 1 + family.first_stage);
  }
  if (const auto block = take_number("block", rest)) place += fmt::format("{}{}.", family.block, *block - 1);

  if (const auto whole = find_name(family.arrays, rest)) return place + std::string(*whole);
  const std::size_t slash = std::min(rest.rfind('/'), rest.size());
  const auto layer = find_name(family.layers, rest.substr(0, slash));
  const auto kind = find_name(kinds, rest.substr(std::min(slash + 1, rest.size())));
  check(layer && kind, "an array of the network has no name in PyTorch");
  return fmt::format("{}{}.{}", place, *layer, *kind);
}

std::string torch_network(const std::vector<TorchArray>& arrays) {
  const auto has = [&](std::string_view name) {
    return std::ranges::find(arrays, name, &TorchArray::name) != arrays.end();
  };
  const auto* const found = std::ranges::find_if(networks, [&](const NamedNetwork& network) {
    const auto array = std::ranges::find(arrays, network.array, &TorchArray::name);
    return array != arrays.end() && starts_with(array->shape, network.extents) && has(network.last) &&
           !has(network.absent);
  });
  return found != std::end(networks) ? std::string(found->name) : "";
}

bool is_only_torchs(std::string_view torch_name) { return torch_name.ends_with(".num_batches_tracked"); }

}  // namespace carillon
