// Names of PyTorch: what torchvision and timm call the variables and buffers of the networks that Carillon shares with
// them. ResNets have torchvision's names, ConvNeXts and vision transformers timm's.
//
//   resnet50               stage2/block1/conv1/norm/gamma    layer2.0.bn1.weight
//   convnext_tiny          stage2/block1/expand/weights      stages.1.blocks.0.mlp.fc1.weight
//   vit_tiny_patch16_224   block1/attention/qkv/weights      blocks.0.attn.qkv.weight
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace carillon {

/// Whether PyTorch's names of this network's arrays are known.
bool has_torch_names(std::string_view network);
/// The networks with known names: "resnet18, resnet34, ...".
std::string networks_with_torch_names();

/// PyTorch's name of a variable or buffer. `network`: one with names. `array`: one of its arrays.
std::string torch_name(std::string_view network, std::string_view array);

/// An array of PyTorch.
struct TorchArray {
  std::string name;
  std::vector<std::int64_t> shape;
};

/// The network that has these arrays, by its blocks and a telling shape; empty: none.
std::string torch_network(const std::vector<TorchArray>& arrays);

/// Whether a state_dict of PyTorch has this array, which no network of Carillon needs: a counter of batches.
bool is_only_torchs(std::string_view torch_name);

}  // namespace carillon
