// mean: the mean of each sample's elements along some axes.
//
//   y[i] = sum over the axes of x[i, ...] / n      dx[i, ...] = dy[i] / n      n: the product of the axes' extents
//
// x: [batch, ...]. In y, the axes have extent 1 or are missing. Sums are in float32, in order of the elements. Source:
// the operator ReduceMean of ONNX. global_avg_pool is the mean of images over height and width.
#pragma once

#include <string>
#include <vector>

#include "carillon/graph/graph.h"

namespace carillon {

struct MeanParams {
  std::vector<std::int64_t> axes;  ///< after the batch; negative: from the last one, which is -1
  bool keeps_axes = false;         ///< the axes have extent 1 in y

  template <typename Fields>
  void visit(Fields& fields) {
    fields("axes", axes);
    fields("keeps_axes", keeps_axes);
  }
};

/// Errors: failed (no axes; no such axis; an axis twice; more groups of axes than BroadcastAxes holds).
Value mean(Graph& graph, const std::string& name, Value x, const MeanParams& params);
extern const OpType mean_op;

/// The axes of `params`, not negative. Errors: failed (as mean).
std::vector<std::size_t> mean_axes(const MeanParams& params, const Shape& x);

/// Tensors: inputs {x}, outputs {y}. `kept`: the shape of y with all axes.
std::unique_ptr<Op> make_mean_cuda(const Shape& kept, const OpTensors& tensors);

}  // namespace carillon
