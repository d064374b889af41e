// Takes arrays from a trained network: translates PyTorch's names of variables and buffers, and resizes the positions
// of a vision transformer to another image size.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "carillon/models/network.h"

namespace carillon {

// PyTorch's names of variables and buffers, for the networks that Carillon shares with torchvision and timm. The
// builders of these networks put the names into the description (NetworkDescription::torch_names).
//
//   resnet50               stage2/block1/conv1/norm/gamma    layer2.0.bn1.weight
//   convnext_tiny          stage2/block1/expand/weights      stages.1.blocks.0.mlp.fc1.weight
//   vit_tiny_patch16_224   block1/attention/qkv/weights      blocks.0.attn.qkv.weight

/// The name of an array in Carillon, and its name in PyTorch.
using TorchName = std::pair<std::string_view, std::string_view>;

/// The rules for the names of a family of networks. Blocks and stages have numbers. Carillon's numbers start at 1:
/// "stage1/block1/conv1".
struct TorchFamily {
  std::string_view stage;  ///< PyTorch's text before the number of a stage; empty: the blocks have no stages
  int first_stage = 0;     ///< PyTorch's number of the first stage
  std::string_view block;  ///< PyTorch's text before the number of a block; block numbers start at 0
  std::span<const TorchName> layers;
  std::span<const TorchName> arrays = {};  ///< names of arrays that cannot be derived from a layer's name. The names
                                           ///< omit the block, if the array belongs to one
};

/// Returns the network with PyTorch's names for all its variables and buffers. Errors: failed (an array has no name in
/// the family).
Network with_torch_names(Network network, const TorchFamily& family);

/// True for PyTorch's batch counters, which Carillon ignores.
bool is_only_torchs(std::string_view torch_name);

// Resizes the learned positions of a vision transformer if the image size differs from the size in training.
//
// Positions have the shape [1, 1 + side * side, channels]. The position of the class token is the first. Then follows a
// square grid, row by row. The grid is resized in the same way as an image, with a cubic filter (a = -0.5). If the grid
// shrinks, the filter is widened by the same factor, as in timm (PyTorch's interpolate with mode "bicubic" and
// antialias).

/// True if both shapes are shapes of positions with a square grid, their numbers of channels are equal, and the grid of
/// `from` has at most 256 rows.
bool are_position_grids(const std::vector<std::int64_t>& from, const std::vector<std::int64_t>& to);

/// Resizes positions from the shape `from` to the shape `to`. Requires are_position_grids() of both shapes.
std::vector<float> resized_positions(const std::vector<float>& positions, const std::vector<std::int64_t>& from,
                                     const std::vector<std::int64_t>& to);

}  // namespace carillon
