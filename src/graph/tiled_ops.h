// TiledOps: the ops of a section, instantiated once, or once for each tile of the batch.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "carillon/graph/op.h"
#include "src/graph/batch_tiling.h"
#include "src/graph/memory_plan.h"

namespace carillon {

/// The tile that one instance of an op processes. If the section is not tiled, the tile is the whole batch.
struct BatchTile {
  int index = 0, worker = 0;
  Device* device = nullptr;
  const float* gradients = nullptr;  ///< the section's part of the flat gradient array
  float* own_gradients = nullptr;    ///< the tile's array of the same layout; null: the op writes `gradients`
};

/// The part of a tensor of the whole batch that belongs to `tile`. `per_worker`: the tensor has memory for one tile per
/// worker (Lifetime::per_worker).
Tensor tile_of(const Tensor& whole, bool per_worker, const TiledSection& section, const BatchTile& tile);

class TiledOps {
 public:
  using MakeOp = std::function<std::unique_ptr<Op>(int op, const BatchTile& tile)>;
  /// `gradients`: the section's part of the flat gradient array; empty: no parameters, or no training. Several threads
  /// call `make_op` at once. `device` outlives this object.
  TiledOps(const TiledSection& section, Device& device, std::span<float> gradients, const MakeOp& make_op);

  void forward(Stream& stream);
  /// `runs`: for each op of the section, whether its backward runs.
  void backward(Stream& stream, const std::vector<bool>& runs);

 private:
  /// Calls body(ops of the tile) for all tiles; each worker processes its tiles in order.
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
  std::vector<std::vector<std::unique_ptr<Op>>> ops_;  // by tile
};

}  // namespace carillon
