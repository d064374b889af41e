// How much memory there is for this process, or less where a control group limits it.
#pragma once

#include <cstdint>

namespace carillon {

/// What Linux calls available: what may still be taken.
std::uint64_t available_memory_bytes();

/// All memory and swap space, whoever has it now.
std::uint64_t total_memory_bytes();

}  // namespace carillon
