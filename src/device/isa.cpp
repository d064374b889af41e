#include "src/device/available_isas.h"

namespace carillon {
namespace {

#if defined(__x86_64__)
// Levels of the x86-64 ABI, which are also the -march of the kernels. Clang 16 has no names for them.
bool has_level_3() {
#if defined(__clang__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
#else
  return __builtin_cpu_supports("x86-64-v3");
#endif
}

bool has_level_4() {
#if defined(__clang__)
  return has_level_3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#else
  return __builtin_cpu_supports("x86-64-v4");
#endif
}
#endif

}  // namespace

std::vector<Isa> available_isas() {
  std::vector<Isa> isas{Isa::plain};
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (has_level_3()) isas.push_back(Isa::avx2);
  if (has_level_4()) isas.push_back(Isa::avx512);
#endif
  return isas;
}

}  // namespace carillon
