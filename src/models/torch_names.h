// PyTorch's names of variables and buffers, for the networks that Carillon shares with torchvision and timm. ResNets
// have torchvision's names; ConvNeXts and vision transformers have timm's names.
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

/// PyTorch's name of a variable or buffer. `network`: a network with known names. `array`: the name of an array of this
/// network.
std::string torch_name(std::string_view network, std::string_view array);

/// An array of PyTorch.
struct TorchArray {
  std::string name;
  std::vector<std::int64_t> shape;
};

/// The network that has these arrays, identified by the number of its blocks and by one shape; empty: no known network.
std::string torch_network(const std::vector<TorchArray>& arrays);

/// True for PyTorch's batch counters, which Carillon ignores.
bool is_only_torchs(std::string_view torch_name);

}  // namespace carillon
