// PyTorch's weights: the trained values of a network in a safetensors file. The file has the names and layouts of
// torchvision or timm.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/graph/parameters.h"
#include "carillon/models/network.h"
#include "src/checkpoint/checkpoint.h"

namespace carillon {

/// True if the name of the file is the name of a weight file (*.safetensors) and not of a checkpoint. Errors: usage
/// (the name or the first bytes show that PyTorch pickled the file; the message contains the command that converts it).
bool is_weight_file(const std::filesystem::path& path);

/// Name and shape of an array in a file of PyTorch's weights.
struct TorchArray {
  std::string name;
  std::vector<std::int64_t> shape;
};

/// Returns the network to which the arrays belong. `networks`: networks with NetworkDescription::torch_names, of any
/// image size and number of outputs. Chooses the network with the largest number of matching arrays (by name and
/// shape), minus the number of arrays that the network does not have. Returns null if, for every network, at most half
/// of the arrays match.
const Network* network_with(const std::vector<TorchArray>& arrays, const std::vector<Network>& networks);

/// Returns the name of the network to which the file's arrays belong (network_with). Errors: data (no network matches,
/// or the file is damaged); no_input, io.
std::string network_of_weight_file(const std::filesystem::path& path, const std::vector<Network>& networks);

/// Returns the name of the layer to which the last of the variables belongs, for example "logits". The values of this
/// layer depend on the classes.
std::string last_layer(const std::vector<ParameterSpec>& variables);

/// Reads the variables and buffers of `network` from the file, except arrays with a name that matches one of
/// `excluded`. The file may lack the excluded arrays. If all names in the file have a common prefix, such as "module.",
/// ignores the prefix and calls `note` with one line. Resizes the position embeddings of a vision transformer for
/// another image size. Errors: usage (the description has no torch_names); data (an array is missing or unknown, has
/// another shape or type, or has a value that is not finite; the file is damaged); no_input, io.
CheckpointState read_weight_file(
    const std::filesystem::path& path, const NetworkDescription& network, const std::vector<ParameterSpec>& variables,
    const std::vector<BufferSpec>& buffers, const std::vector<std::string>& excluded,
    const std::function<void(const std::string&)>& note = [](const std::string&) {});

/// Converts arrays of `network` to PyTorch's names and layouts. Errors: usage (the description has no torch_names);
/// data (torch_names does not contain an array).
std::vector<NamedArray> torch_arrays(const NetworkDescription& network, const std::vector<NamedArray>& variables,
                                     const std::vector<NamedArray>& buffers);

// Layout of PyTorch's arrays. Carillon's convolutions are [height, width, in, out], and PyTorch's are [out, in, height,
// width]. Carillon's dense weights are [in, out], and PyTorch's are [out, in]. All other arrays have the same layout in
// both. The names of Carillon's convolution and dense weights end in "/weights".

/// Returns the shape that PyTorch uses for an array. `name`, `shape`: Carillon's name and shape of this array.
std::vector<std::int64_t> torch_shape(std::string_view name, const std::vector<std::int64_t>& shape);

/// Converts the values to PyTorch's layout. `name`, `shape`: Carillon's name and shape of the array.
std::vector<float> to_torch_layout(std::string_view name, const std::vector<float>& values,
                                   const std::vector<std::int64_t>& shape);
/// Does the inverse of to_torch_layout. `name`, `shape`: Carillon's name and shape of the array.
std::vector<float> from_torch_layout(std::string_view name, const std::vector<float>& values,
                                     const std::vector<std::int64_t>& shape);

}  // namespace carillon
