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

/// Whether the file is a weight file (*.safetensors) and not a checkpoint, according to its name. Errors: usage (the
/// name or the first bytes show a file that PyTorch pickled; the message contains the command that converts it).
bool is_weight_file(const std::filesystem::path& path);

/// The network that has the arrays of the file, found by the names of the arrays. Errors: data (no network has these
/// names, or the file is damaged); no_input, io.
std::string network_of_weight_file(const std::filesystem::path& path);

/// Reads the variables and buffers of `model` from the file, except those with a name that matches one of `excluded`;
/// the file may lack these. Resizes the position embeddings of a vision transformer for another image size. Errors:
/// usage (Carillon does not know PyTorch's names for the model); data (an array is missing, unknown, or of another
/// shape or type, or has a value that is not finite; the file is damaged); no_input, io.
CheckpointState read_weight_file(const std::filesystem::path& path, const std::string& model,
                                 const std::vector<ParameterSpec>& variables, const std::vector<BufferSpec>& buffers,
                                 const std::vector<std::string>& excluded);

/// Converts arrays of `model` to PyTorch's names and layouts. Errors: usage (Carillon does not know PyTorch's names for
/// the model).
std::vector<NamedArray> torch_arrays(const std::string& model, const std::vector<NamedArray>& variables,
                                     const std::vector<NamedArray>& buffers);

}  // namespace carillon
