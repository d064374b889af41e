// Layout of PyTorch's arrays. Carillon's convolutions are [height, width, in, out] and its dense weights [in, out];
// PyTorch's are [out, in, height, width] and [out, in]. All other arrays have the same layout.
#pragma once

#include <cstdint>
#include <vector>

namespace carillon {

/// PyTorch's shape of an array with our shape.
std::vector<std::int64_t> torch_shape(const std::vector<std::int64_t>& shape);

/// Converts the values to PyTorch's layout. `shape`: our shape.
std::vector<float> to_torch_layout(const std::vector<float>& values, const std::vector<std::int64_t>& shape);
/// The inverse of to_torch_layout. `shape`: our shape.
std::vector<float> from_torch_layout(const std::vector<float>& values, const std::vector<std::int64_t>& shape);

}  // namespace carillon
