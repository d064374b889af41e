// Copies the named arrays of a checkpoint to and from a network's parameters and buffers.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "carillon/graph/parameters.h"
#include "src/checkpoint/checkpoint.h"

namespace carillon {

struct NamedTensor {
  std::string name;
  Tensor tensor;  ///< its data is in the memory of the device
};
std::vector<NamedTensor> variables_of(const ParameterStore& parameters);
/// Splits `array`, a flat array with the layout of `parameters` (such as a slot), into one tensor per variable.
std::vector<NamedTensor> parts_of(std::span<float> array, const ParameterStore& parameters);
std::vector<NamedTensor> buffers_of(const BufferStore& buffers);

/// Returns the first array that contains a NaN or an infinity, or null if all values are finite.
const NamedArray* find_not_finite(std::span<const NamedArray> arrays);

std::vector<NamedArray> download(const std::vector<NamedTensor>& tensors, Device& device);

/// Copies each element of `arrays` into the tensor with the same name. The arrays were read from the checkpoint `path`.
/// If the function throws, no tensor has changed. Errors: data (an array is missing, unknown or of another shape; the
/// message names file and array).
void upload(const std::vector<NamedArray>& arrays, const std::vector<NamedTensor>& tensors, Device& device,
            const std::filesystem::path& path);

}  // namespace carillon
