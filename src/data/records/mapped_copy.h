// copy_mapped: copies bytes of a mapped file that another process may truncate at any time.
//
// If a file is truncated, reading its mapped pages beyond the new end raises SIGBUS, which ends the process. During a
// copy, the signal is caught and becomes an Error. Any other SIGBUS has its previous effect.
#pragma once

#include <cstddef>
#include <span>

namespace carillon {

/// Copies the mapped bytes `from` to `to`. Errors: data, without the file's name (the file was truncated).
void copy_mapped(std::span<const std::byte> from, std::byte* to);

}  // namespace carillon
