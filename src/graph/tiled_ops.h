// TiledOps: the ops of a section, each made once, or once for every slice of the batch.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "carillon/graph/op.h"
#include "src/graph/batch_tiling.h"
#include "src/graph/memory_plan.h"

namespace carillon {

/// Where one instance of an op works.
struct BatchTile {
  int slice = 0, worker = 0;
  Device* device = nullptr;
  const float* gradients = nullptr;  ///< the section's part of the flat array of parameters' gradients, ...
  float* own_gradients = nullptr;    ///< ... in whose place the slice has this; null: that itself
};

/// What an instance at `place` works on of a tensor of the whole batch; `of_slice`: of one with memory for a slice a
/// worker.
Tensor slice_of(const Tensor& whole, bool of_slice, const TiledSection& section, const BatchTile& place);

class TiledOps {
 public:
  using MakeOp = std::function<std::unique_ptr<Op>(int op, const BatchTile& place)>;
  /// `gradients`: the section's part of the flat array; empty: none, or no training. `make_op` is called by several
  /// threads at once. `device` outlives this.
  TiledOps(const TiledSection& section, Device& device, std::span<float> gradients, const MakeOp& make_op);

  void forward(Stream& stream);
  /// `runs`: whether it does, for each op of the section.
  void backward(Stream& stream, const std::vector<bool>& runs);

 private:
  /// Calls body(slice) for all slices, those of a worker in order.
  template <typename Body>
  void for_slices(const Body& body);
  float* gradients_of(int slice) const {
    return static_cast<float*>(slice_gradients_.data()) + static_cast<std::size_t>(slice) * gradient_stride();
  }
  std::size_t gradient_stride() const { return aligned_float_count(gradients_.size()); }

  TiledSection section_;
  Device& device_;
  std::span<float> gradients_;
  Buffer slice_gradients_;                             // gradients_.size() for each slice, and a gap
  std::vector<std::vector<std::unique_ptr<Op>>> ops_;  // by slice
};

}  // namespace carillon
