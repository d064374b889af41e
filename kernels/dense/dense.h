// dense: a fully connected layer. The layer may have biases.
//
//   z = x W + b,  y = relu ? max(z, 0) : z     x: [rows, in], W: [in, out], b: [out], y: [rows, out]
//   dz = relu ? dy * [y > 0] : dy
//   dW = x^T dz,  db[j] = sum over rows of dz[., j],  dx = dz W^T
//
// A row is a sample, with all its extents flattened. If `per_position` is true, a row is a position of a sample, such
// as a token.
//
// Passes fuse a ReLU that follows a layer with biases into the layer (src/graph/passes.h). Parameters: `<name>/weights`
// [in, out] and `<name>/biases` [out], in TensorFlow's layout. If the layer has no biases, b is 0 and there is no db.
//
// In float32 on a CPU, the products x W and x^T dz skip zeros of x if `input_density` indicates that this is faster
// (sparse_product.h). If the density is wrong, the layer is only slower. The results are the same as in the formulas,
// except that 0 * inf may be 0.
#pragma once

#include <optional>

#include "carillon/graph/graph.h"

namespace carillon {

struct DenseParams {
  std::int64_t units = 0;                             ///< number of outputs (`out`)
  Initializer weights = {};                           ///< must be set: the default is zeros
  std::optional<Initializer> biases = Initializer{};  ///< nullopt: no biases
  float l2_factor = 0.0f;                             ///< L2 factor of the weights; biases have no L2 term
  float input_density = 1.0f;                         ///< expected fraction of the elements of x that are not zero
  bool per_position = false;                          ///< true: x is [batch, ..., in] and y is [batch, ..., out]

  template <typename Fields>
  void visit(Fields& fields) {
    fields("units", units);
    fields("weights", weights);
    fields("biases", biases);
    fields("l2_factor", l2_factor);
    fields("input_density", input_density);
    fields("per_position", per_position);
  }
};

Value dense(Graph& graph, const std::string& name, Value x, const DenseParams& params);
extern const OpType dense_op;

/// The settings of the op, for tensors of known shapes.
struct DenseForm {
  bool relu = false;  ///< y = max(z, 0); requires biases
  float input_density = 1.0f;
  bool per_position = false;
  bool has_addend = false;  ///< true: y = x W + b + addend. Only on a GPU, and without ReLU
};

/// Tensors: inputs {x} or {x, addend}, outputs {y}, parameters {W, b} or {W}. The gradient of the addend is in the
/// memory of the gradient of y.
/// `weights_copy`: the format of the compute copy of W (parameters.h), if there is one. The gradient of x may be in the
/// memory of x.
std::unique_ptr<Op> make_dense_cuda(bool relu, const OpContext& context, const OpTensors& tensors,
                                    ComputeCopyFormat weights_copy = ComputeCopyFormat::same_layout);

}  // namespace carillon
