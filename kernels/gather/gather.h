// gather: selects elements of one axis by constant indices, or adds several elements with constant weights.
//
//   y[..., i, ...] = sum over k of weights[i, k] x[..., indices[i, k], ...]      i from 0 to count - 1, k below terms
//   dx[..., j, ...] = sum of weights[i, k] dy[..., i, ...] over the (i, k) with indices[i, k] = j
//
// x: [batch, ...]; y has the extent `count` on the axis. The batch is not an axis. An index of -1 means an element with
// the value 0. Sums are in float32, in order of (i, k). With two terms, the op can interpolate linearly along the axis.
//
// Sources: the operators Gather and Resize of ONNX.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "carillon/graph/graph.h"

namespace carillon {

struct GatherParams {
  std::int64_t axis = -1;             ///< 1 to rank - 1; -1: the last axis
  std::vector<std::int64_t> indices;  ///< [count, terms], row-major
  std::vector<float> weights;         ///< [count, terms], row-major; empty: all weights are 1
  std::int64_t terms = 1;

  template <typename Fields>
  void visit(Fields& fields) {
    fields("axis", axis);
    fields("indices", indices);
    fields("weights", weights);
    fields("terms", terms);
  }
};

/// Errors: failed (the axis does not exist or is the batch; there are no indices; an index is outside the axis and is
/// not -1; the number of indices is not a multiple of `terms`; the number of weights is wrong; a weight is not finite).
Value gather(Graph& graph, const std::string& name, Value x, const GatherParams& params);
extern const OpType gather_op;

/// Returns the axis of `params` in a tensor of this shape. Errors: failed (the axis does not exist or is the batch).
std::size_t gather_axis(const GatherParams& params, const Shape& x);

struct WeightedRows;
/// Tensors: inputs {x}, outputs {y}. `forward` maps x to y, and `backward` maps dy to dx.
std::unique_ptr<Op> make_gather_cuda(const WeightedRows& forward, const WeightedRows& backward,
                                     const OpContext& context, const OpTensors& tensors);

}  // namespace carillon
