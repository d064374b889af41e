// How much memory this process may still take: what Linux calls available, or less where a control group limits it.
#pragma once

#include <cstdint>

namespace carillon {

std::uint64_t available_memory_bytes();

}  // namespace carillon
