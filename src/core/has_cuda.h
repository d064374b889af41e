// Whether this build has the CUDA forms. CMake says so; only sources that ask include this, so that all others are the
// same in both builds, and are compiled once where their objects are cached.
#pragma once

namespace carillon {

/// What only CUDA builds link is called in branches of `if constexpr` on it, so that nothing stands in for it
/// elsewhere.
inline constexpr bool has_cuda = CARILLON_HAS_CUDA;

}  // namespace carillon
