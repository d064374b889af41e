// concat: joins tensors along one axis. The inverse of split.
//
//   y[..., offset_k + i, ...] = x_k[..., i, ...]      offset_k = the sum of the extents of x_0 ... x_(k - 1)
//   dx_k[..., i, ...] = dy[..., offset_k + i, ...]
//
// x_k: [batch, ...]; only the extents of the axis differ. The axis is not the batch. Source: the operator Concat of
// ONNX.
#pragma once

#include <span>
#include <string>

#include "carillon/graph/graph.h"

namespace carillon {

struct ConcatParams {
  std::int64_t axis = -1;  ///< 1 to rank - 1; -1: the last axis, for example the channels

  template <typename Fields>
  void visit(Fields& fields) {
    fields("axis", axis);
  }
};

/// Errors: failed (no inputs; no such axis; other extents differ).
Value concat(Graph& graph, const std::string& name, std::span<const Value> inputs, const ConcatParams& params = {});
extern const OpType concat_op;

}  // namespace carillon
