// Memory plan: one block of device memory for all activations and their gradients, by lifetime.
//
// Steps of a training iteration are numbered: forward of section i (src/graph/batch_tiling.h; mostly one op) is time i,
// its backward time 2n - 1 - i for n sections. A tensor lives from the time that writes it first to the time that reads
// it last; tensors whose lifetimes do not overlap may share memory. Tensors that an op says are one
// (OpDefinition::output_shares_input, gradient_shares_output) live in one place, from the first time of the first of
// them to the last time of the last. Placement is greedy by size (Pisarchyk and Lee, "Efficient memory management for
// deep neural net inference", 2020, section 5.2).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "carillon/graph/graph.h"
#include "src/graph/batch_tiling.h"

namespace carillon {

struct Lifetime {
  std::size_t bytes = 0;
  int first = 0, last = -1;  ///< times, inclusive; last < first: never used, takes no memory
  bool of_slice = false;     ///< memory for one slice of the batch a worker: nobody beyond a section reads it
  int same_as = -1;          ///< an earlier one in the list whose memory this one has, and whose lifetime covers both
};

struct MemoryPlan {
  std::vector<std::size_t> offsets;  ///< bytes, one per lifetime, multiples of tensor_alignment_bytes
  std::size_t peak_bytes = 0;
};

/// Bytes of one slice of a tensor of `bytes`, rounded up so that another can lie behind it.
std::size_t slice_memory_bytes(std::size_t bytes, const TiledSection& section);

/// Places every lifetime so that no two that overlap in time share a byte, but for those that are the same.
MemoryPlan plan_memory(std::span<const Lifetime> lifetimes);

/// Lifetimes of all values of `graph`, followed, in training, by those of their gradients in the same order.
/// `results`: values that must last to the end of the iteration. `sections`: the graph's.
std::vector<Lifetime> tensor_lifetimes(const Graph& graph, std::span<const TiledSection> sections, bool training,
                                       std::span<const Value> results);

}  // namespace carillon
