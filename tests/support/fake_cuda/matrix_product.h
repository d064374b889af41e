// Computes the fake's cublasLtMatmul: D = alpha op(A) op(B) + beta C, in column-major layout. It can also add a bias
// and apply a ReLU, or also compute the sum of each row of op(A). Source: cuBLAS, "cublasLtMatmul".
#pragma once

#include <cublasLt.h>

#include "src/core/bf16.h"

namespace fake_cuda {

struct Matrix {
  const void* data = nullptr;
  cudaDataType_t type = CUDA_R_32F;
  std::int64_t rows = 0, columns = 0, leading_dimension = 0;  ///< layout in memory
  bool transposed = false;
  std::int32_t batch_count = 1;
  std::int64_t batch_stride = 0;  ///< in elements

  std::int64_t product_rows() const { return transposed ? columns : rows; }
  std::int64_t product_columns() const { return transposed ? rows : columns; }
  std::size_t element_bytes() const { return type == CUDA_R_16BF ? sizeof(carillon::Bf16) : sizeof(float); }
  std::size_t bytes() const {
    const std::int64_t before_last = (batch_count - 1) * batch_stride + (columns - 1) * leading_dimension;
    return static_cast<std::size_t>(before_last + rows) * element_bytes();
  }
  /// Returns this operand in product number `number` of the batch.
  Matrix of_batch(std::int64_t number) const {
    Matrix one = *this;
    one.data = static_cast<const std::byte*>(data) + static_cast<std::size_t>(number * batch_stride) * element_bytes();
    return one;
  }
};

struct Product {
  Matrix a, b, c, d;
  bool tf32 = false;
  float alpha = 1.0f, beta = 0.0f;  ///< if beta is 0, C is not read
  bool relu = false;
  const void* bias = nullptr;
  void* bias_gradient = nullptr;
  cudaDataType_t bias_type = CUDA_R_32F;  ///< type of the bias or of the bias gradient
};

/// Computes D. Each sum is added in float32, in ascending order.
void compute(const Product& product);

}  // namespace fake_cuda
