#include "src/device/available_isas.h"

namespace carillon {

std::vector<Isa> available_isas() {
  std::vector<Isa> isas{Isa::plain};
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v3")) isas.push_back(Isa::avx2);
  if (__builtin_cpu_supports("x86-64-v4")) isas.push_back(Isa::avx512);
#endif
  return isas;
}

}  // namespace carillon
