// for_isa: the form of a kernel, from a *_simd.cpp (simd.h), that a device's instruction set asks for.
#pragma once

#include "carillon/device/isa.h"

namespace carillon {

#if defined(__x86_64__)
inline constexpr bool has_wide_isas = true;
#else
inline constexpr bool has_wide_isas = false;
#endif

/// Declares, in each instruction set's namespace, what a *_simd.cpp defines there.
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

/// Calls one of the three: what finds a kernel in namespace plain, avx2 or avx512.
template <typename Plain, typename Avx2, typename Avx512>
auto for_isa(Isa isa, const Plain& plain, const Avx2& avx2, const Avx512& avx512) {
  if constexpr (has_wide_isas) {
    if (isa == Isa::avx512) return avx512();
    if (isa == Isa::avx2) return avx2();
  }
  return plain();
}

}  // namespace carillon
