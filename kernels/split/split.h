// split: divides a tensor along one axis into parts. The first op with several outputs.
//
//   y_k[..., i, ...] = x[..., offset_k + i, ...]      i = 0 ... sizes[k] - 1, offset_k = sizes[0] + ... + sizes[k - 1]
//   dx[..., offset_k + i, ...] = dy_k[..., i, ...]    0 for a part that no op reads
//
// x: [batch, ...]. The axis is not the batch. Source: the operator Split of ONNX.
#pragma once

#include <string>
#include <vector>

#include "carillon/graph/graph.h"

namespace carillon {

struct SplitParams {
  std::int64_t axis = -1;           ///< 1 to rank - 1; -1: the last axis, for example the channels
  std::vector<std::int64_t> sizes;  ///< extent of each part; the sum is the extent of x

  template <typename Fields>
  void visit(Fields& fields) {
    fields("axis", axis);
    fields("sizes", sizes);
  }
};

/// Adds the op and returns the parts. Errors: failed (no such axis; no parts; the sizes are not positive or have
/// another sum).
std::vector<Value> split(Graph& graph, const std::string& name, Value x, const SplitParams& params);
extern const OpType split_op;

/// The axis of `params` in a tensor of this shape. Errors: failed (no such axis, or the batch).
std::size_t split_axis(const SplitParams& params, const Shape& x);

}  // namespace carillon
