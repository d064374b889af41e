// SweepOps: the ops of a sweep, each made once, or once for every slice of the batch.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "carillon/graph/memory_plan.h"
#include "carillon/graph/op.h"
#include "carillon/graph/sweeps.h"

namespace carillon {

/// Where one instance of an op works.
struct SlicePlace {
  int slice = 0, worker = 0;
  Device* device = nullptr;
  const float* gradients = nullptr;  ///< the sweep's part of the flat array of parameters' gradients, ...
  float* own_gradients = nullptr;    ///< ... in whose place the slice has this; null: that itself
};

/// What an instance at `place` works on of a tensor of the whole batch; `of_slice`: of one with memory for a slice a
/// worker.
Tensor slice_of(const Tensor& whole, bool of_slice, const Sweep& sweep, const SlicePlace& place);

class SweepOps {
 public:
  using MakeOp = std::function<std::unique_ptr<Op>(int op, const SlicePlace& place)>;
  /// `gradients`: the sweep's part of the flat array; empty: none, or no training. `make_op` is called by several
  /// threads at once. `device` outlives this.
  SweepOps(const Sweep& sweep, Device& device, std::span<float> gradients, const MakeOp& make_op);

  void forward(Stream& stream);
  /// `runs`: whether it does, for each op of the sweep.
  void backward(Stream& stream, const std::vector<bool>& runs);

 private:
  /// Calls body(slice) for all slices, those of a worker in order.
  template <typename Body>
  void for_slices(const Body& body);
  float* gradients_of(int slice) const {
    return static_cast<float*>(slice_gradients_.data()) + static_cast<std::size_t>(slice) * gradient_stride();
  }
  std::size_t gradient_stride() const { return aligned_float_count(gradients_.size()); }

  Sweep sweep_;
  Device& device_;
  std::span<float> gradients_;
  Buffer slice_gradients_;                             // gradients_.size() for each slice, and a gap
  std::vector<std::vector<std::unique_ptr<Op>>> ops_;  // by slice
};

}  // namespace carillon
