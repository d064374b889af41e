// matmul: products of matrices. There is one product for each sample and for each index of the axes between the batch
// and the matrices.
//
//   y[..., r, c] = sum over i of a'[..., r, i] * b'[..., i, c]      a' = a, or a transposed; b' likewise
//   da' = dy b'^T      db' = a'^T dy
//
//   a': [batch, ..., m, k]   b': [batch, ..., k, n]   y: [batch, ..., m, n]
//
// If transpose_a is set, the last two axes of a are exchanged in memory: a is [batch, ..., k, m]. If transpose_b is
// set, b is [batch, ..., n, k]. For a product with a variable, use dense. Source: the operator MatMul of ONNX.
#pragma once

#include <string>

#include "carillon/graph/graph.h"

namespace carillon {

struct MatmulParams {
  bool transpose_a = false, transpose_b = false;

  template <typename Fields>
  void visit(Fields& fields) {
    fields("transpose_a", transpose_a);
    fields("transpose_b", transpose_b);
  }
};

/// Errors: failed (a or b has fewer than three axes; the extents do not match).
Value matmul(Graph& graph, const std::string& name, Value a, Value b, const MatmulParams& params = {});
extern const OpType matmul_op;

/// An operand of a batch of products: a tensor [count, rows, columns], or its transpose.
struct MatmulOperand {
  Tensor tensor;
  std::int64_t rows = 0, columns = 0;  ///< extents that the operand has in the product
  bool transposed = false;             ///< true: the memory is [count, columns, rows]
};

/// A batch of `count` products c = a b.
struct MatmulProduct {
  MatmulOperand a, b, c;  ///< c must not be transposed
  std::int64_t count = 1;
};

/// The products of the op. If the c of a product has no data, the op does not compute the product.
struct MatmulProducts {
  MatmulProduct y, da, db;
};
/// Tensors: inputs {a, b}, outputs {y}.
MatmulProducts matmul_products(const MatmulParams& params, const OpTensors& tensors);

std::unique_ptr<Op> make_matmul_cuda(const MatmulProducts& products, const OpContext& context);

}  // namespace carillon
