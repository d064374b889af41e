// A checkpoint's arrays to and from the stores of a network, by name.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "carillon/graph/buffers.h"
#include "carillon/graph/parameters.h"
#include "src/checkpoint/checkpoint.h"

namespace carillon {

/// Named tensors in a device's memory: the variables of a store, one of its slots, its buffers.
struct NamedTensors {
  std::vector<std::string> names;
  std::vector<Tensor> tensors;
};
NamedTensors variables_of(const ParameterStore& parameters);
NamedTensors slot_of(const ParameterStore& parameters, int slot);
NamedTensors buffers_of(const BufferStore& buffers);

/// The first array with a NaN or an infinity; null where there is none.
const NamedArray* find_not_finite(std::span<const NamedArray> arrays);

std::vector<NamedArray> download(const NamedTensors& tensors, Device& device);

/// Copies `arrays`, of the checkpoint `path`, into the tensors of the same names; all of them or none. Errors: data,
/// naming the file and the array that is missing, unknown or of another shape.
void upload(const std::vector<NamedArray>& arrays, const NamedTensors& tensors, Device& device,
            const std::filesystem::path& path);

}  // namespace carillon
