#include "src/core/denormals.h"

#include <cstdint>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace carillon {

void flush_denormals() {
#if defined(__x86_64__)
  constexpr unsigned flush_results = 1u << 15, operands_are_zero = 1u << 6;  // of MXCSR
  _mm_setcsr(_mm_getcsr() | flush_results | operands_are_zero);
#elif defined(__aarch64__)
  constexpr std::uint64_t flush_both = std::uint64_t{1} << 24;  // of FPCR
  std::uint64_t control = 0;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  asm volatile("msr fpcr, %0" : : "r"(control | flush_both));
#endif
}

}  // namespace carillon
