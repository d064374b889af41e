// The products of Bf16TileKernels by AMX's tile instructions. Requires Isa::amx (src/device/isa.cpp asks for the
// permission).
#pragma once

#include "kernels/shared/bf16_tiles.h"

namespace carillon {

/// Configures the calling thread's tiles. Call it in each parallel region, because other libraries may have changed the
/// configuration.
void begin_amx_tiles();
/// Releases the tiles, because otherwise Linux would save 8 KiB of tile data at each context switch. Also completes the
/// non-temporal stores of write_rounded (complete_non_temporal_stores).
void end_amx_tiles();
void multiply_amx_tiles(const TileProduct& product);

}  // namespace carillon
