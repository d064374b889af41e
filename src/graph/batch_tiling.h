// Batch tiling: neighbouring ops process the batch tile by tile, so that their activations stay in a core's cache.
//
// Without tiling, an op writes its output for the whole batch (megabytes for a convolution) to memory, and the next op
// reads it back. In a tiled section, all ops process a few samples before they continue with the next samples. Tiles
// are independent of each other: one thread runs all ops of the section on a tile. A tensor that only the section reads
// needs memory for one tile per thread. The tiles' parameter gradients are summed in tile order.
//
//   forward   for each tile: op 0, op 1, ...      backward   for each tile: ..., op 1, op 0;  dw = dw_0 + dw_1 + ...
//
// plan_tiling divides a graph into sections, and TiledOps runs a section. Tiles depend only on the shapes and on
// Device::min_samples, so the results are the same, bit for bit, for any number of threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "carillon/graph/graph.h"
#include "carillon/graph/op.h"

namespace carillon {

/// Consecutive ops: either one op that processes the whole batch, or several ops that process the batch tile by tile.
struct TiledSection {
  int first = 0, last = 0;  ///< ops [first, last)
  int tiles = 1;            ///< number of tiles; 1 if the section is not tiled
  int workers = 0;          ///< number of threads that process tiles; 0 if the section is not tiled
  std::int64_t batch = 0;   ///< samples of the whole batch
  std::int64_t unit = 1;    ///< tiles begin at multiples of this many samples

  bool is_tiled() const { return workers > 0; }
  /// Returns the first sample of a tile. begin_of(tiles) is the batch size.
  std::int64_t begin_of(int tile) const { return std::min(units() * tile / tiles * unit, batch); }
  std::int64_t samples_of(int tile) const { return begin_of(tile + 1) - begin_of(tile); }
  std::int64_t max_samples() const { return std::min((units() + tiles - 1) / tiles * unit, batch); }
  std::int64_t units() const { return (batch + unit - 1) / unit; }
};

/// Divides all ops of the graph, in order, into sections. `workers`: threads that may process tiles; 0: no tiling.
/// `min_samples`: the size of each tile, except the last one, is a multiple of this number (Device::min_samples).
std::vector<TiledSection> plan_tiling(const Graph& graph, int workers, std::int64_t min_samples = 1);

/// Returns the number of bytes of the largest tile of a tensor that has `bytes` bytes. Rounds up, so that the tile of
/// the next worker is aligned.
std::size_t tile_memory_bytes(std::size_t bytes, const TiledSection& section);

/// The tile that one instance of an op processes. If the section is not tiled, the tile is the whole batch.
struct BatchTile {
  int index = 0, worker = 0;
  Device* device = nullptr;
  const float* gradients = nullptr;  ///< the section's part of the flat gradient array
  float* own_gradients = nullptr;    ///< the tile's array with the same layout; null: the op writes directly to
                                     ///< `gradients`
};

/// Returns the part of a tensor of the whole batch that belongs to `tile`. `per_worker`: the tensor has memory for one
/// tile per worker (Lifetime::per_worker).
Tensor tile_of(const Tensor& whole, bool per_worker, const TiledSection& section, const BatchTile& tile);

class TiledOps {
 public:
  using MakeOp = std::function<std::unique_ptr<Op>(int op, const BatchTile& tile)>;
  /// `gradients`: the section's part of the flat gradient array; empty: no parameters, or no training. Several threads
  /// call `make_op` concurrently. `device` outlives this object.
  TiledOps(const TiledSection& section, Device& device, std::span<float> gradients, const MakeOp& make_op);

  void forward(Stream& stream);
  /// Runs the backward pass of the section, tile by tile. `runs`: for each op, whether its backward runs.
  void backward(Stream& stream, const std::vector<bool>& runs);

 private:
  /// Calls body(ops of the tile) for all tiles. Each worker processes its tiles in order.
  template <typename Body>
  void for_tiles(const Body& body);
  float* gradients_of(int tile) const {
    return static_cast<float*>(tile_gradients_.data()) + static_cast<std::size_t>(tile) * gradient_stride();
  }
  std::size_t gradient_stride() const { return aligned_float_count(gradients_.size()); }

  TiledSection section_;
  Device& device_;
  std::span<float> gradients_;
  Buffer tile_gradients_;                              // [tiles, gradient_stride()]
  std::vector<std::vector<std::unique_ptr<Op>>> ops_;  // the ops of each tile
};

}  // namespace carillon
