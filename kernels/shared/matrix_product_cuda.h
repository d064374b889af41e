// MatrixProductCuda: C = A B (+ bias, then ReLU) by cuBLASLt, for row-major matrices. CUDA builds only.
//
//   C[r, c] = relu(sum over k of A[r, k] * B[k, c] + bias[c]), with or without the last two
//
// Elements are f32 or bf16, equal for A and B; products follow `arithmetic` and are summed in float32. The
// algorithm is the first that cuBLASLt's heuristic proposes for these shapes and addresses, so the same on every run,
// among those that add in a fixed order: a sum cut into parts (split-K) is put together in float32 by a pass of its
// own.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <optional>

#include "kernels/shared/column_major.h"
#include "src/device/cuda_device.h"

namespace carillon {

/// An operand by its memory and its extents in the product.
struct MatrixOperand {
  const Tensor* tensor;
  RowMajorMatrix matrix;
};

/// What follows the product while it is in registers. `bias`: [columns of C] in C's type, null for none; `relu` needs
/// it.
struct MatrixEpilogue {
  const Tensor* bias = nullptr;
  bool relu = false;
};

class MatrixProductCuda {
 public:
  /// C is not transposed. Errors: failed, naming the product, when cuBLASLt has no algorithm for it.
  MatrixProductCuda(CudaDevice& device, Arithmetic arithmetic, const MatrixOperand& a, const MatrixOperand& b,
                    const MatrixOperand& c);
  /// The same with an epilogue; nothing when cuBLASLt has no algorithm for it.
  static std::optional<MatrixProductCuda> with_epilogue(CudaDevice& device, Arithmetic arithmetic,
                                                        const MatrixOperand& a, const MatrixOperand& b,
                                                        const MatrixOperand& c, const MatrixEpilogue& epilogue);

  /// Enqueues it; uses the device's workspace.
  void run(Stream& stream) const;

 private:
  using Description = Handle<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
  using Layout = Handle<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;

  MatrixProductCuda(CudaDevice& device, Arithmetic arithmetic, const MatrixOperand& a, const MatrixOperand& b,
                    const MatrixOperand& c, const MatrixEpilogue& epilogue);
  void set_epilogue(const MatrixEpilogue& epilogue);
  /// Whether there is an algorithm.
  bool choose_algorithm(Arithmetic arithmetic);

  CudaDevice* device_;
  Description description_;
  Layout left_layout_, right_layout_, result_layout_;  ///< column-major: left is B
  const void *left_, *right_;
  void* result_;
  cublasLtMatmulAlgo_t algorithm_ = {};
};

}  // namespace carillon
