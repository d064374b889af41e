// has_cuda: true in builds with CUDA. CMake defines it. Only sources that need has_cuda include this header. All other
// sources are the same in builds with and without CUDA, so a compiler cache compiles them only once.
#pragma once

namespace carillon {

/// Call functions that exist only in CUDA builds within `if constexpr (has_cuda)`. Other builds then need no stubs for
/// these functions.
inline constexpr bool has_cuda = CARILLON_HAS_CUDA;

}  // namespace carillon
