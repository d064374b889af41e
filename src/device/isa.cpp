#include <algorithm>

#include "carillon/device/device.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

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

bool has_avx512_bf16() {
  constexpr unsigned bf16 = 1u << 5;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return has_level_4() && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & bf16) != 0;
}

/// Whether processor and system permit the tile instructions. Requests Linux's permission to use tile data. It applies
/// to all threads of the process. Programs that the process executes must request it again.
bool request_amx() {
  constexpr unsigned bf16 = 1u << 22, tiles = 1u << 24, saves_extended_states = 1u << 27;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & bf16) == 0 || (d & tiles) == 0) return false;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & saves_extended_states) == 0) return false;
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  constexpr unsigned tile_states = 3u << 17;
  if ((low & tile_states) != tile_states) return false;
  constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}
#endif

}  // namespace

std::vector<Isa> available_isas() {
  std::vector<Isa> isas{Isa::plain};
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (has_level_3()) isas.push_back(Isa::avx2);
  if (has_level_4()) isas.push_back(Isa::avx512);
  if (has_avx512_bf16()) isas.push_back(Isa::avx512_bf16);
  if (has_avx512_bf16() && request_amx()) isas.push_back(Isa::amx);
#endif
  return isas;
}

Isa rounding_isa(Isa isa, Arithmetic arithmetic) {
  const bool has_own_products = isa == Isa::avx512_bf16 && arithmetic == Arithmetic::bf16;
  return has_own_products ? isa : std::min(isa, Isa::avx512);
}

}  // namespace carillon
