// BatchTiling: neighbouring ops that take the batch slice by slice, so that what one hands to the next lies in a core's
// cache.
//
// A convolution's output, megabytes for a batch, would be written to memory by one op and read back by the next. In a
// section all ops do a few samples before any goes on: slices are independent, each is one thread's, and what only the
// section reads needs memory for a slice a thread. Parameter gradients of the slices are summed in their order.
//
//   forward   for each slice: op 0, op 1, ...      backward   for each slice: ..., op 1, op 0;  dw = dw_0 + dw_1 + ...
//
// Slices depend on the shapes alone, so equal networks give equal bits on any number of threads.
#pragma once

#include <cstdint>
#include <vector>

#include "carillon/graph/graph.h"

namespace carillon {

struct TiledSection {
  int first = 0, last = 0;  ///< ops [first, last)
  int slices = 1;           ///< of the batch; 1: one op, which takes the batch whole
  int workers = 0;          ///< that take slices at once; 0: no slices
  std::int64_t batch = 0;   ///< samples

  bool is_tiled() const { return workers > 0; }
  /// The first sample of a slice; of the one behind the last: the batch.
  std::int64_t begin_of(int slice) const { return batch * slice / slices; }
  std::int64_t samples_of(int slice) const { return begin_of(slice + 1) - begin_of(slice); }
  std::int64_t max_samples() const { return (batch + slices - 1) / slices; }
};

/// All ops of the graph, in order. `workers`: threads that could take slices; 0: all ops take the batch whole.
std::vector<TiledSection> plan_tiling(const Graph& graph, int workers);

}  // namespace carillon
