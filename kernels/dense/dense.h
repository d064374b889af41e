// dense: a fully connected layer, with biases or without; where it has them, a ReLU behind it becomes part of it
// (src/graph/passes.h).
//
//   z = x W + b,  y = relu ? max(z, 0) : z     x: [batch, in] (further extents flattened), W: [in, out], b: [out]
//   dz = relu ? dy * [y > 0] : dy
//   dW = x^T dz,  db[j] = sum over batch of dz[., j],  dx = dz W^T
//
// On a CPU the product x W and its gradient x^T dz skip zeros of x where `input_density` says that this pays
// (sparse_product.h). A wrong figure costs only time: results are those of the formulas, but that 0 * inf may be 0.
//
// Parameters `<name>/weights` [in, out] and `<name>/biases` [out], TensorFlow's layout. Without biases b is 0 and
// there is no db.
#pragma once

#include <optional>

#include "carillon/graph/graph.h"

namespace carillon {

struct DenseParams {
  std::int64_t units = 0;  ///< out
  Initializer weights = {};
  std::optional<Initializer> biases = Initializer{};  ///< nothing: it has none
  float l2_factor = 0.0f;                             ///< of the weights; biases have none
  float input_density = 1.0f;                         ///< the share of x's elements that are expected not to be zero
};

Value dense(Graph& graph, const std::string& name, Value x, const DenseParams& params);

/// What a dense op is, beside its tensors.
struct DenseForm {
  bool relu = false;  ///< only with biases
  float input_density = 1.0f;
};

/// Tensors: inputs {x}, outputs {y}, parameters {W, b} or {W}.
std::unique_ptr<Op> make_dense_cpu(const DenseForm& form, const OpContext& context, const OpTensors& tensors);
std::unique_ptr<Op> make_dense_cuda(bool relu, const OpContext& context, const OpTensors& tensors);

}  // namespace carillon
