// transpose: reorders the axes of a tensor.
//
//   y[i_0, i_1, ...] = x[j_0, j_1, ...] with j_axes[k] = i_k      the extent k of y is the extent axes[k] of x
//   dx = dy, transposed by the inverse of the axes
//
// x, y: [batch, ...]. The batch stays the first axis. Source: the operator Transpose of ONNX.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "carillon/graph/graph.h"

namespace carillon {

struct TransposeParams {
  std::vector<std::int64_t> axes;  ///< each axis of x once; the first is 0, the batch

  template <typename Fields>
  void visit(Fields& fields) {
    fields("axes", axes);
  }
};

/// Errors: failed (the axes are no such permutation; more groups of axes than TransposeAxes holds).
Value transpose(Graph& graph, const std::string& name, Value x, const TransposeParams& params);
extern const OpType transpose_op;

/// y = x transposed, in one type.
void transpose_cuda(std::span<const std::int64_t> axes, const Tensor& x, const Tensor& y, Stream& stream);

}  // namespace carillon
