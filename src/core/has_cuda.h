// has_cuda: true in builds with CUDA. CMake defines it. Only sources that need it include this header, so all others
// are equal in both builds, and a compiler cache compiles them once.
#pragma once

namespace carillon {

/// Call functions that exist in CUDA builds only within `if constexpr (has_cuda)`. So no stand-in is needed elsewhere.
inline constexpr bool has_cuda = CARILLON_HAS_CUDA;

}  // namespace carillon
