// Memory plan: places all activations and their gradients in one block of device memory, by their lifetimes.
//
// Times number the forward and backward passes of the sections in a training step. With n sections
// (src/graph/batch_tiling.h; most sections have one op), the forward pass of section i has time i, and its backward
// pass has time 2n - 1 - i. A tensor's lifetime is from its first write to its last read. Tensors with disjoint
// lifetimes may share memory. Tensors that must share memory (OpDefinition::output_shares_input,
// gradient_shares_output) have one offset and a lifetime that covers all of them. Placement is greedy by size
// (Pisarchyk and Lee, "Efficient memory management for deep neural net inference", 2020, section 5.2).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "carillon/graph/graph.h"
#include "src/graph/batch_tiling.h"

namespace carillon {

struct Lifetime {
  std::size_t bytes = 0;
  int first = 0, last = -1;  ///< first and last time, both included; last < first: the tensor is never used and needs
                             ///< no memory
  bool per_worker = false;   ///< memory for one tile per worker, because only one tiled section uses the tensor
  int same_as = -1;          ///< index of an earlier lifetime that includes this one and has the same memory
};

struct MemoryPlan {
  std::vector<std::size_t> offsets;  ///< offsets in bytes, one per lifetime; multiples of tensor_alignment_bytes
  std::size_t peak_bytes = 0;
};

/// Places every lifetime. Two lifetimes that overlap in time share no byte, except lifetimes with `same_as`.
MemoryPlan plan_memory(std::span<const Lifetime> lifetimes);

/// Returns the lifetimes of all values of `graph`. In training, the lifetimes of their gradients follow in the same
/// order. `results`: values that must last to the end of the step. `sections`: the result of plan_tiling(graph, ...).
std::vector<Lifetime> tensor_lifetimes(const Graph& graph, std::span<const TiledSection> sections, bool training,
                                       std::span<const Value> results);

}  // namespace carillon
