#include "matrix_product.h"

#include <cmath>
#include <cstring>
#include <vector>

namespace fake_cuda {
namespace {

float load(const void* data, cudaDataType_t type, std::int64_t index) {
  if (type == CUDA_R_16BF) return carillon::to_float(static_cast<const carillon::Bf16*>(data)[index]);
  return static_cast<const float*>(data)[index];
}

void store(void* data, cudaDataType_t type, std::int64_t index, float value) {
  if (type == CUDA_R_16BF) {
    static_cast<carillon::Bf16*>(data)[index] = carillon::to_bf16(value);
  } else {
    static_cast<float*>(data)[index] = value;
  }
}

/// Rounds `value` to the nearest number with 10 bits of mantissa.
float round_to_tf32(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  if ((bits & 0x7f800000u) != 0x7f800000u) bits = (bits + 0x1000u) & ~0x1fffu;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

/// Returns op(matrix) as floats, in column-major order: element (r, c) has the index c * rows + r.
std::vector<float> unpacked(const Matrix& matrix, bool tf32) {
  const std::int64_t rows = matrix.product_rows(), columns = matrix.product_columns();
  std::vector<float> values(static_cast<std::size_t>(rows * columns));
  for (std::int64_t c = 0; c < columns; ++c) {
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t index =
          matrix.transposed ? r * matrix.leading_dimension + c : c * matrix.leading_dimension + r;
      const float value = load(matrix.data, matrix.type, index);
      values[static_cast<std::size_t>(c * rows + r)] = tf32 ? round_to_tf32(value) : value;
    }
  }
  return values;
}

void compute_one(const Product& product) {
  const std::vector<float> a = unpacked(product.a, product.tf32), b = unpacked(product.b, product.tf32);
  const std::int64_t rows = product.d.rows, inner = product.a.product_columns();
  for (std::int64_t row = 0; product.bias_gradient != nullptr && row < rows; ++row) {
    float sum = 0.0f;
    for (std::int64_t k = 0; k < inner; ++k) sum += a[static_cast<std::size_t>(k * rows + row)];
    store(product.bias_gradient, product.bias_type, row, sum);
  }
  std::vector<float> sums(static_cast<std::size_t>(rows));
  for (std::int64_t column = 0; column < product.d.columns; ++column) {
    std::fill(sums.begin(), sums.end(), 0.0f);
    for (std::int64_t k = 0; k < inner; ++k) {
      const float factor = b[static_cast<std::size_t>(column * inner + k)];
      const float* of_a = a.data() + k * rows;
      for (std::int64_t row = 0; row < rows; ++row) sums[static_cast<std::size_t>(row)] += of_a[row] * factor;
    }
    for (std::int64_t row = 0; row < rows; ++row) {
      float value = product.alpha * sums[static_cast<std::size_t>(row)];
      const std::int64_t place = column * product.d.leading_dimension + row;
      if (product.beta != 0.0f) value += product.beta * load(product.c.data, product.c.type, place);
      if (product.bias != nullptr) value += load(product.bias, product.bias_type, row);
      const bool tensor_cores = product.tf32 || product.a.type == CUDA_R_16BF;
      if (product.relu && (value < 0.0f || (tensor_cores && std::isnan(value)))) value = 0.0f;  // an H200 does the same
      store(const_cast<void*>(product.d.data), product.d.type, place, value);
    }
  }
}

}  // namespace

void compute(const Product& product) {
  for (std::int64_t number = 0; number < product.d.batch_count; ++number) {
    Product one = product;
    one.a = product.a.of_batch(number);
    one.b = product.b.of_batch(number);
    one.c = product.c.of_batch(number);
    one.d = product.d.of_batch(number);
    compute_one(one);
  }
}

}  // namespace fake_cuda
