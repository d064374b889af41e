// Batch tiling: neighbouring ops process the batch tile by tile, so that their activations stay in a core's cache.
//
// A convolution's output for a whole batch has megabytes: one op would write it to memory and the next would read it
// back. In a tiled section, all ops process a few samples before they continue with the next. Tiles are independent,
// and one thread processes a tile through all ops of the section. A tensor that only the section reads needs memory for
// one tile per thread. The tiles' parameter gradients are summed in tile order.
//
//   forward   for each tile: op 0, op 1, ...      backward   for each tile: ..., op 1, op 0;  dw = dw_0 + dw_1 + ...
//
// Tiles depend only on the shapes and on Device::min_samples, so the results are the same, bit for bit, for any number
// of threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "carillon/graph/graph.h"

namespace carillon {

/// Consecutive ops: either one op that processes the whole batch, or several that process tiles of it.
struct TiledSection {
  int first = 0, last = 0;  ///< ops [first, last)
  int tiles = 1;            ///< 1 if not tiled
  int workers = 0;          ///< threads that process tiles; 0: not tiled
  std::int64_t batch = 0;   ///< samples
  std::int64_t unit = 1;    ///< tiles begin at multiples of this many samples

  bool is_tiled() const { return workers > 0; }
  /// The first sample of a tile; begin_of(tiles) is the batch size.
  std::int64_t begin_of(int tile) const { return std::min(units() * tile / tiles * unit, batch); }
  std::int64_t samples_of(int tile) const { return begin_of(tile + 1) - begin_of(tile); }
  std::int64_t max_samples() const { return std::min((units() + tiles - 1) / tiles * unit, batch); }
  std::int64_t units() const { return (batch + unit - 1) / unit; }
};

/// Divides all ops of the graph, in order, into sections. `workers`: threads that may process tiles; 0: no tiling.
/// `min_samples`: the size of each tile, except the last one, is a multiple of this number (Device::min_samples).
std::vector<TiledSection> plan_tiling(const Graph& graph, int workers, std::int64_t min_samples = 1);

}  // namespace carillon
