// PyTorch's weights: the trained values of a network in a file of safetensors, with the names and layouts of
// torchvision or timm.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "carillon/graph/buffers.h"
#include "carillon/graph/parameters.h"
#include "src/checkpoint/checkpoint.h"

namespace carillon {

/// Whether the name is that of a file with weights, not of a checkpoint: *.safetensors. Errors: usage (a file that
/// PyTorch pickled, by its name or its first bytes; names the command that converts it).
bool is_weight_file(const std::filesystem::path& path);

/// The network whose arrays the file has, by their names. Errors: data (of no network with known names, or damaged);
/// no_input, io.
std::string network_of_weight_file(const std::filesystem::path& path);

/// A state of `model` with the variables and buffers of the file, except those that match one of `excluded`, which the
/// file may lack. Positions of a vision transformer for another image size are resized. Errors: usage (no such names
/// are known for the model); data (an array is missing, unknown, or of another shape or type, or has a value that is
/// not finite; the file is damaged); no_input, io.
CheckpointState read_weight_file(const std::filesystem::path& path, const std::string& model,
                                 const std::vector<ParameterSpec>& variables, const std::vector<BufferSpec>& buffers,
                                 const std::vector<std::string>& excluded);

/// Arrays of `model` as PyTorch names and stores them. Errors: usage (no such names are known for the model).
std::vector<NamedArray> torch_arrays(const std::string& model, const std::vector<NamedArray>& variables,
                                     const std::vector<NamedArray>& buffers);

}  // namespace carillon
