// Available and total memory of this process. The limits of control groups are respected.
#pragma once

#include <cstdint>

namespace carillon {

/// Memory that Linux reports as available.
std::uint64_t available_memory_bytes();

/// All memory and swap space, used or not.
std::uint64_t total_memory_bytes();

}  // namespace carillon
