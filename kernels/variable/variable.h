// variable: numbers that are trained, the same for each sample. For example a class token, positions, or a factor for
// each channel that another op adds or multiplies.
//
//   y[b, i] = w[i]          y: [batch, shape...]     w: `<name>/values` [shape...], float32 in every arithmetic
//   dw[i] = sum over b of dy[b, i], in order of the samples
//
// With `trains` false, w keeps its initial values.
#pragma once

#include <string>
#include <vector>

#include "carillon/graph/graph.h"

namespace carillon {

struct VariableParams {
  std::vector<std::int64_t> shape;  ///< of one sample
  bool trains = true;
  Initializer values = {};

  template <typename Fields>
  void visit(Fields& fields) {
    fields("shape", shape);
    fields("trains", trains);
    fields("values", values);
  }
};

/// Errors: failed (no extent, or one that is not positive).
Value variable(Graph& graph, const std::string& name, const VariableParams& params);
extern const OpType variable_op;

/// Tensors: outputs {y}, parameters {w}.
std::unique_ptr<Op> make_variable_cuda(const OpTensors& tensors);

}  // namespace carillon
