// MatrixProductCuda: computes C = A B (+ bias, then ReLU; or + a matrix) with cuBLASLt, for row-major matrices. CUDA
// builds only.
//
//   C[r, c] = relu(sum over k of A[r, k] * B[k, c] + addend[r, c] + bias[c]), addend, bias and ReLU optional
//   C[r, c] = alpha * sum over k of A[r, k] * B[k, c] + beta * S[r, c]
//   sums[c] = sum over k of B[k, c]                             optional
//
// Elements are f32 or bf16. A and B have the same type. Products are computed in `arithmetic` and summed in float32.
// cuBLASLt's heuristic proposes algorithms for these shapes and addresses. The product uses the first proposed
// algorithm that adds in a fixed order. Therefore every run uses the same algorithm. If the sums are divided (split-K),
// a separate pass adds the parts in float32.
//
// A batch computes several products of equal shapes. Each operand has its own distance from one product to the next.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <optional>

#include "src/device/cuda_device.h"

namespace carillon {

// Describes row-major matrix products in the terms of a column-major library (cuBLAS).
//
//   The memory of a row-major matrix [rows, columns] equals the memory of its transpose in column-major order. So
//   C = A B in row-major order is C^T = B^T A^T in column-major order on the same memory: the operands change places.

/// An operand of a row-major product, with its extents in the product. `transposed`: the memory contains the transpose
/// of the operand.
struct RowMajorMatrix {
  std::int64_t rows, columns;
  bool transposed = false;
  std::int64_t stride = 0;  ///< number of elements from one row in memory to the next; 0: the rows are contiguous
};

/// A column-major matrix in memory: element (r, c) is at r + c * leading_dimension. `transposed`: the product uses its
/// transpose.
struct ColumnMajorMatrix {
  std::int64_t rows, columns, leading_dimension;
  bool transposed = false;
  bool operator==(const ColumnMajorMatrix&) const = default;
};

/// Returns the column-major description of the transpose of `matrix`, in the same memory.
constexpr ColumnMajorMatrix column_major(const RowMajorMatrix& matrix) {
  const std::int64_t row = matrix.transposed ? matrix.rows : matrix.columns;  // number of elements of a row in memory
  const std::int64_t leading_dimension = matrix.stride > 0 ? matrix.stride : row;
  if (matrix.transposed) return {matrix.rows, matrix.columns, leading_dimension, true};
  return {matrix.columns, matrix.rows, leading_dimension, false};
}

/// An operand: its memory and its extents in the product.
struct MatrixOperand {
  const Tensor* tensor;
  RowMajorMatrix matrix;
  std::int64_t batch_stride = 0;  ///< number of elements from one product of a batch to the next
  std::size_t address_step = 0;   ///< in bytes; in every run, the operand's address is the tensor's address plus a
                                  ///< multiple of this number
};

struct MatrixBatch {
  std::int64_t count = 1;           ///< number of products
  std::size_t workspace_bytes = 0;  ///< number of bytes to use at the start of the device's workspace; 0: all bytes
};

/// Factors that multiply the product and S.
struct MatrixFactors {
  float alpha = 1.0f, beta = 0.0f;
};

/// The memory of the operands of one run.
struct MatrixAddresses {
  const void *a, *b;
  void* c;
  const void* s = nullptr;  ///< S; null if beta is 0. Has the same layout and alignment as C; may be A or B, but not C
};

/// Operations that the kernel applies to the product while the product is in registers, or to B while B is in shared
/// memory. A product may have a bias or sums, but not both.
struct MatrixEpilogue {
  const Tensor* bias = nullptr;    ///< [columns of C] in C's type, or null
  bool relu = false;               ///< true: apply a ReLU; requires a bias
  const Tensor* b_sums = nullptr;  ///< receives the sums of the columns of B: [columns of C] in float32, or null; B
                                   ///< must not be transposed
  const Tensor* addend = nullptr;  ///< added before the ReLU; has the same layout and type as C, but other memory;
                                   ///< null: there is none
};

class MatrixProductCuda {
 public:
  /// C is not transposed. Errors: failed (cuBLASLt has no algorithm; the message names the product).
  MatrixProductCuda(CudaDevice& device, Arithmetic arithmetic, const MatrixOperand& a, const MatrixOperand& b,
                    const MatrixOperand& c, const MatrixBatch& batch = {}, const MatrixFactors& factors = {});
  /// Makes a product with an epilogue. Returns nullopt if cuBLASLt has no algorithm.
  static std::optional<MatrixProductCuda> with_epilogue(CudaDevice& device, Arithmetic arithmetic,
                                                        const MatrixOperand& a, const MatrixOperand& b,
                                                        const MatrixOperand& c, const MatrixEpilogue& epilogue);

  /// Returns the number of parts into which the sums over k are divided. The GPU computes the parts in parallel. If the
  /// result is small, a GPU needs several parts.
  int splits() const;

  /// Enqueues the product. S is added only if it is the addend of the epilogue. The product uses the device's
  /// workspace.
  void run(Stream& stream) const { run(stream, memory_); }
  /// Enqueues the product of the operands at the addresses in `memory` (see MatrixOperand::address_step).
  void run(Stream& stream, const MatrixAddresses& memory) const;

 private:
  using Description = Handle<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
  using Layout = Handle<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;

  MatrixProductCuda(CudaDevice& device, Arithmetic arithmetic, const MatrixOperand& a, const MatrixOperand& b,
                    const MatrixOperand& c, const MatrixBatch& batch, const MatrixEpilogue& epilogue);
  void set_epilogue(const MatrixEpilogue& epilogue);
  /// Returns true if cuBLASLt has an algorithm.
  bool choose_algorithm(Arithmetic arithmetic, const MatrixOperand& a, const MatrixOperand& b, const MatrixOperand& c);

  CudaDevice* device_;
  Description description_;
  Layout left_layout_, right_layout_, result_layout_;  ///< the product in column-major order: `left` is B
  MatrixAddresses memory_;
  std::size_t workspace_bytes_;
  MatrixFactors factors_;
  cublasLtMatmulAlgo_t algorithm_ = {};
};

}  // namespace carillon
