// for_isa: chooses the version of a kernel of a *_simd.cpp (simd.h) for a device's instruction set.
#pragma once

#include "carillon/device/isa.h"

namespace carillon {

#if defined(__x86_64__)
inline constexpr bool has_wide_isas = true;
#else
inline constexpr bool has_wide_isas = false;
#endif

/// Makes a declaration in the namespace of each instruction set, for a definition in a *_simd.cpp.
#define CARILLON_DECLARE_FOR_ISAS(declaration) \
  namespace plain {                            \
  declaration;                                 \
  }                                            \
  namespace avx2 {                             \
  declaration;                                 \
  }                                            \
  namespace avx512 {                           \
  declaration;                                 \
  }

/// Calls the function of the instruction set; each returns the kernel of its namespace.
template <typename Plain, typename Avx2, typename Avx512>
auto for_isa(Isa isa, const Plain& plain, const Avx2& avx2, const Avx512& avx512) {
  if constexpr (has_wide_isas) {
    if (isa >= Isa::avx512) return avx512();
    if (isa == Isa::avx2) return avx2();
  }
  return plain();
}

}  // namespace carillon
