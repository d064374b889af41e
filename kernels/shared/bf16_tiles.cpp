#include "kernels/shared/bf16_tiles.h"

#include "kernels/shared/bf16_tile_instructions.h"
#include "kernels/shared/for_isa.h"

namespace carillon {

CARILLON_DECLARE_FOR_ISAS(const Bf16TileKernels* bf16_tile_kernels())

#if defined(__x86_64__)
namespace {

Bf16TileKernels with_avx512_bf16() {
  Bf16TileKernels kernels = *avx512::bf16_tile_kernels();
  kernels.multiply = multiply_avx512_bf16;
  kernels.write_rounded = write_rounded_avx512_bf16;
  kernels.end = complete_non_temporal_stores;
  return kernels;
}

Bf16TileKernels with_amx() {
  Bf16TileKernels kernels = with_avx512_bf16();
  kernels.begin = begin_amx_tiles;
  kernels.end = end_amx_tiles;
  kernels.multiply = multiply_amx_tiles;
  return kernels;
}

}  // namespace
#endif

const Bf16TileKernels& bf16_tile_kernels(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::amx) {
    static const Bf16TileKernels amx = with_amx();
    return amx;
  }
  if (isa == Isa::avx512_bf16) {
    static const Bf16TileKernels avx512_bf16 = with_avx512_bf16();
    return avx512_bf16;
  }
#endif
  return *for_isa(
      isa, [] { return plain::bf16_tile_kernels(); }, [] { return avx2::bf16_tile_kernels(); },
      [] { return avx512::bf16_tile_kernels(); });
}

}  // namespace carillon
