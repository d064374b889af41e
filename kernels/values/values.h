// Values that do not depend on an input, and are the same for each sample: constant and variable.
#pragma once

#include <string>
#include <vector>

#include "carillon/graph/graph.h"

namespace carillon {

// constant: numbers that are not trained.
//
//   y[b, i] = values[i]      y: [batch, shape...]
//
// The numbers are attributes of the op.

struct ConstantParams {
  std::vector<std::int64_t> shape;  ///< shape of one sample; empty: one number
  std::vector<float> values;        ///< row-major; or one value, which all elements have

  template <typename Fields>
  void visit(Fields& fields) {
    fields("shape", shape);
    fields("values", values);
  }
};

/// Errors: failed (an extent is not positive; the number of elements overflows; the number of values is neither 1 nor
/// the number of elements).
Value constant(Graph& graph, const std::string& name, const ConstantParams& params);
extern const OpType constant_op;

// variable: numbers that are trained, for example a class token, positions, or a factor for each channel. Another op
// adds or multiplies them.
//
//   y[b, i] = w[i]          y: [batch, shape...]     w: `<name>/values` [shape...], float32 in every arithmetic
//   dw[i] = sum over b of dy[b, i], in order of the samples
//
// If `trains` is false, w keeps its initial values.

struct VariableParams {
  std::vector<std::int64_t> shape;  ///< shape of one sample
  bool trains = true;
  Initializer values = {};

  template <typename Fields>
  void visit(Fields& fields) {
    fields("shape", shape);
    fields("trains", trains);
    fields("values", values);
  }
};

/// Errors: failed (the shape has no extent; an extent is not positive or exceeds max_attribute).
Value variable(Graph& graph, const std::string& name, const VariableParams& params);
extern const OpType variable_op;

/// Tensors: outputs {y}. `values`: ConstantParams::values.
std::unique_ptr<Op> make_constant_cuda(const std::vector<float>& values, const OpContext& context,
                                       const OpTensors& tensors);
/// Tensors: outputs {y}, parameters {w}.
std::unique_ptr<Op> make_variable_cuda(const OpTensors& tensors);

}  // namespace carillon
