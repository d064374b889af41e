// Vision transformers as in timm: vit_tiny_patch16_224, vit_small_patch16_224, vit_base_patch16_224, and
// vit_tiny_patch4_32 for CIFAR-10's images. Source: Dosovitskiy and others, "An image is worth 16x16 words:
// transformers for image recognition at scale", 2021.
//
//   layer          output at 224x224, with patches of 16
//   input          224x224x3    means and deviations of 0.5 or of the settings; cropped (padded by 4), mirrored
//   patches        14x14xw      16x16, stride 16, with biases
//   tokens         197xw        a class token in front; learned positions are added
//   block1 ... 12  197xw        x + project(attention(norm(x))), then x + project(GELU(expand(norm(x))))
//   class          w            the class token
//   norm           w
//   logits         classes, with biases
//
//           w     heads   parameters for 1000 classes   GMAC at 224x224, without the attention's products
//   tiny    192    3       5,717,416                     1.075
//   small   384    6      22,050,664                     4.241
//   base    768   12      86,567,656                    16.849
//
// A network's name contains the side of its patches and its usual image size. The number of positions depends on the
// actual image size. Initial weights and positions are truncated normal with deviation 0.02. The initial class token is
// truncated normal with deviation 10^-6. The weights of the patches have PyTorch's initial values for a convolution.
#include <fmt/format.h>

#include <string_view>

#include "carillon/models/networks.h"
#include "kernels/attention/attention.h"
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/tokens/tokens.h"
#include "src/models/layers.h"
#include "src/models/pretrained.h"

namespace carillon {
namespace {

struct TransformerForm {
  std::int64_t width = 0;       ///< channels of a token
  std::int64_t patch_side = 0;  ///< side of a patch in pixels
};

constexpr std::int64_t block_count = 12, width_of_head = 64, expansion = 4;
constexpr float epsilon = 1e-6f;  ///< epsilon of the layer norms

Value transformer_block(Graph& graph, Value x, const BlockPlace& place, const NetworkSettings& settings) {
  const std::string name = fmt::format("block{}", place.index + 1);
  const std::int64_t width = graph.shape(x)[2];
  const auto end_branch = [&](const std::string& part, Value y) {
    y = drop_branch(graph, part, y, place, settings);
    return add(graph, part + "/sum", y, x);
  };
  Value y = layer_norm(graph, name + "/norm1", x, {.epsilon = epsilon});
  y = position_dense(graph, name + "/attention/qkv", y, 3 * width, settings);
  y = attention(graph, name + "/attention", y, {.heads = width / width_of_head});
  y = position_dense(graph, name + "/attention/project", y, width, settings);
  x = end_branch(name + "/attention", y);

  y = layer_norm(graph, name + "/norm2", x, {.epsilon = epsilon});
  y = position_dense(graph, name + "/mlp/expand", y, expansion * width, settings);
  y = gelu(graph, name + "/mlp/gelu", y);
  y = position_dense(graph, name + "/mlp/project", y, width, settings);
  return end_branch(name + "/mlp", y);
}

Value patch_tokens(Graph& graph, const TransformerForm& form, const NetworkSettings& settings) {
  const ImageInputParams input{.mean = {0.5f, 0.5f, 0.5f},
                               .deviation = {0.5f, 0.5f, 0.5f, 1.0f},
                               .padding = 4,
                               .mirroring = ImageMirroring::random};
  Value x = image_input(graph, "input", normalized_images(input, settings));
  const Initializer fan_in = fan_in_uniform(form.patch_side * form.patch_side * 3);
  x = conv2d(graph, "patches", x,
             {.filters = form.width,
              .kernel = form.patch_side,
              .stride = form.patch_side,
              .padding = Padding::valid,
              .weights = fan_in,
              .biases = fan_in,
              .l2_factor = settings.regularization});
  return embed_tokens(graph, "tokens", x, {.class_token = normal_after_cut(1e-6), .positions = normal_after_cut(0.02)});
}

void check_sides(std::string_view name, std::int64_t patch_side, const ImageShape& image) {
  if (image.height % patch_side == 0 && image.width % patch_side == 0) return;
  fail(ExitCode::usage, "the network {} requires sides that are multiples of {} pixels; these images are {} x {}", name,
       patch_side, image.height, image.width);
}

constexpr TorchName torch_layers[] = {
    {"patches", "patch_embed.proj"},    {"norm1", "norm1"}, {"attention/qkv", "attn.qkv"},
    {"attention/project", "attn.proj"}, {"norm2", "norm2"}, {"mlp/expand", "mlp.fc1"},
    {"mlp/project", "mlp.fc2"},         {"norm", "norm"},   {"logits", "head"}};
constexpr TorchName torch_arrays[] = {{"tokens/class", "cls_token"}, {"tokens/positions", "pos_embed"}};
constexpr TorchFamily torch_family{.stage = "", .block = "blocks.", .layers = torch_layers, .arrays = torch_arrays};

Network vision_transformer(std::string_view name, const TransformerForm& form, const NetworkSettings& settings) {
  check_has_colours(name, settings);
  check_sides(name, form.patch_side, settings.image);
  const auto layers = [form, settings](Graph& graph) {
    Value x = patch_tokens(graph, form, settings);
    for (int index = 0; index < block_count; ++index) {
      graph.set_block(index);
      x = transformer_block(graph, x, {.index = index, .count = block_count}, settings);
    }
    graph.set_block(-1);
    x = first_token(graph, "class", x);  // the norm processes each token alone, so the other tokens need no norm
    x = layer_norm(graph, "norm", x, {.epsilon = epsilon});
    return dense(graph, "logits", x,
                 {.units = settings.outputs, .weights = normal_after_cut(0.02), .l2_factor = settings.regularization});
  };
  return with_torch_names(make_network(std::string(name), settings, layers), torch_family);
}

}  // namespace

Network vit_tiny_patch16_224_network(const NetworkSettings& settings) {
  return vision_transformer("vit_tiny_patch16_224", {.width = 192, .patch_side = 16}, settings);
}
Network vit_small_patch16_224_network(const NetworkSettings& settings) {
  return vision_transformer("vit_small_patch16_224", {.width = 384, .patch_side = 16}, settings);
}
Network vit_base_patch16_224_network(const NetworkSettings& settings) {
  return vision_transformer("vit_base_patch16_224", {.width = 768, .patch_side = 16}, settings);
}
Network vit_tiny_patch4_32_network(const NetworkSettings& settings) {
  return vision_transformer("vit_tiny_patch4_32", {.width = 192, .patch_side = 4}, settings);
}

}  // namespace carillon
