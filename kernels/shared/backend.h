// Chooses an implementation of an op. on_device chooses by the device of the context. for_isa chooses by the
// instruction set of the CPU, among the versions of a kernel in a *_simd.cpp (simd.h).
#pragma once

#include <memory>

#include "carillon/core/error.h"
#include "carillon/device/isa.h"
#include "carillon/graph/op.h"
#include "src/core/has_cuda.h"

namespace carillon {

/// Returns make_cpu() or make_cuda(), depending on the context's device.
template <typename MakeCpu, typename MakeCuda>
std::unique_ptr<Op> on_device(const OpContext& context, const MakeCpu& make_cpu, const MakeCuda& make_cuda) {
  if (context.device->kind() == DeviceKind::cpu) return make_cpu();
  if constexpr (has_cuda) return make_cuda();
  fail(ExitCode::failed, "this build has no CUDA ops (device {})", context.device->name());
}

#if defined(__x86_64__)
inline constexpr bool has_wide_isas = true;
#else
inline constexpr bool has_wide_isas = false;
#endif

/// Repeats a declaration in the namespace of each instruction set. A *_simd.cpp contains the definition.
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

/// Calls the function for the instruction set `isa`. Each function returns the kernel of its namespace.
template <typename Plain, typename Avx2, typename Avx512>
auto for_isa(Isa isa, const Plain& plain, const Avx2& avx2, const Avx512& avx512) {
  if constexpr (has_wide_isas) {
    if (isa >= Isa::avx512) return avx512();
    if (isa == Isa::avx2) return avx2();
  }
  return plain();
}

}  // namespace carillon
