// copy_mapped: copies bytes of a mapped file, which another process may cut at any time.
//
// Pages of a mapping that the file no longer reaches are no memory: touching one raises SIGBUS, which ends the process.
// Within a copy the signal is caught and becomes an Error; any other SIGBUS goes where it went before.
#pragma once

#include <cstddef>
#include <span>

namespace carillon {

/// Copies the mapped bytes `from` to `to`. Errors: data, without the file's name (it is shorter now).
void copy_mapped(std::span<const std::byte> from, std::byte* to);

}  // namespace carillon
