// constant: the same numbers for each sample.
//
//   y[b, i] = values[i]      y: [batch, shape...]
//
// The numbers are attributes of the op. Nothing trains them.
#pragma once

#include <string>
#include <vector>

#include "carillon/graph/graph.h"

namespace carillon {

struct ConstantParams {
  std::vector<std::int64_t> shape;  ///< of one sample; empty: one number
  std::vector<float> values;        ///< row-major, or one value for all elements

  template <typename Fields>
  void visit(Fields& fields) {
    fields("shape", shape);
    fields("values", values);
  }
};

/// Errors: failed (an extent is not positive; the number of values is neither 1 nor the number of elements).
Value constant(Graph& graph, const std::string& name, const ConstantParams& params);
extern const OpType constant_op;

/// Tensors: outputs {y}. `values`: as ConstantParams::values.
std::unique_ptr<Op> make_constant_cuda(const std::vector<float>& values, const OpContext& context,
                                       const OpTensors& tensors);

}  // namespace carillon
