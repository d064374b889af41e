// Layout of PyTorch's arrays. Carillon's convolutions are [height, width, in, out] and its dense weights [in, out];
// PyTorch's are [out, in, height, width] and [out, in]. All other arrays have the same layout. The names of these
// weights end in "/weights".
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace carillon {

/// PyTorch's shape of an array with our name and shape.
std::vector<std::int64_t> torch_shape(std::string_view name, const std::vector<std::int64_t>& shape);

/// Converts the values to PyTorch's layout. `name`, `shape`: our name and shape.
std::vector<float> to_torch_layout(std::string_view name, const std::vector<float>& values,
                                   const std::vector<std::int64_t>& shape);
/// The inverse of to_torch_layout. `name`, `shape`: our name and shape.
std::vector<float> from_torch_layout(std::string_view name, const std::vector<float>& values,
                                     const std::vector<std::int64_t>& shape);

}  // namespace carillon
