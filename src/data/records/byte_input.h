// ByteInput: where a decompressor's bytes come from, in order.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

namespace carillon {

/// Writes the next bytes to `out` and returns their number: fewer than asked for only at the end. Errors: its own.
using ByteInput = std::function<std::size_t(std::span<std::byte> out)>;

}  // namespace carillon
