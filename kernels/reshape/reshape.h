// reshape: gives the elements of each sample another shape.
//
//   y[b, i] = x[b, i] for the elements i of a sample, in row-major order      dx[b, i] = dy[b, i]
//
// x: [batch, ...]   y: [batch, extents...]. y has the memory of x, and dx the memory of dy. Source: the operator
// Reshape of ONNX.
#pragma once

#include <string>
#include <vector>

#include "carillon/graph/graph.h"

namespace carillon {

struct ReshapeParams {
  std::vector<std::int64_t> extents;  ///< of a sample; one of them may be -1: what remains

  template <typename Fields>
  void visit(Fields& fields) {
    fields("extents", extents);
  }
};

/// Errors: failed (an extent is neither positive nor -1; several are -1; another number of elements).
Value reshape(Graph& graph, const std::string& name, Value x, const ReshapeParams& params);
extern const OpType reshape_op;

}  // namespace carillon
