// ByteInput: sequential source of compressed bytes for a decompressor.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

namespace carillon {

/// Writes the next bytes to `out` and returns their number, which is less than requested only at the end. Errors: those
/// of the source.
using ByteInput = std::function<std::size_t(std::span<std::byte> out)>;

}  // namespace carillon
