#include <gtest/gtest.h>

#include <vector>

#include "kernels/shared/matrix_product_cuda.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

/// Returns element (r, c) of an operand of a product. Reads it from `memory`, as `matrix` describes.
float column_major_element(const ColumnMajorMatrix& matrix, std::span<const float> memory, std::int64_t r,
                           std::int64_t c) {
  if (matrix.transposed) std::swap(r, c);
  EXPECT_LT(r, matrix.rows);
  EXPECT_LT(c, matrix.columns);
  return memory[static_cast<std::size_t>(r + c * matrix.leading_dimension)];
}

std::int64_t result_rows(const ColumnMajorMatrix& m) { return m.transposed ? m.columns : m.rows; }
std::int64_t result_columns(const ColumnMajorMatrix& m) { return m.transposed ? m.rows : m.columns; }

/// Computes D = A B like a library with column-major matrices. Returns the content of D's memory.
std::vector<float> column_major_product(const ColumnMajorMatrix& a, std::span<const float> a_memory,
                                        const ColumnMajorMatrix& b, std::span<const float> b_memory,
                                        const ColumnMajorMatrix& d) {
  EXPECT_FALSE(d.transposed);
  EXPECT_EQ(result_rows(a), d.rows);
  EXPECT_EQ(result_columns(b), d.columns);
  EXPECT_EQ(result_columns(a), result_rows(b));
  std::vector<float> memory(static_cast<std::size_t>(d.rows * d.columns), -1.0f);
  for (std::int64_t r = 0; r < d.rows; ++r) {
    for (std::int64_t c = 0; c < d.columns; ++c) {
      float sum = 0.0f;
      for (std::int64_t k = 0; k < result_columns(a); ++k) {
        sum += column_major_element(a, a_memory, r, k) * column_major_element(b, b_memory, k, c);
      }
      memory.at(static_cast<std::size_t>(r + c * d.leading_dimension)) = sum;
    }
  }
  return memory;
}

float row_major_element(const RowMajorMatrix& matrix, std::span<const float> memory, std::int64_t r, std::int64_t c) {
  return memory[static_cast<std::size_t>(matrix.transposed ? c * matrix.rows + r : r * matrix.columns + c)];
}

void expect_row_major_product(const RowMajorMatrix& a, const RowMajorMatrix& b) {
  const auto a_memory = random_values(static_cast<std::size_t>(a.rows * a.columns), 1);
  const auto b_memory = random_values(static_cast<std::size_t>(b.rows * b.columns), 2);
  const RowMajorMatrix c{a.rows, b.columns};
  // A and B are exchanged, because the library computes the transpose of the row-major product.
  const auto memory = column_major_product(column_major(b), b_memory, column_major(a), a_memory, column_major(c));
  for (std::int64_t r = 0; r < c.rows; ++r) {
    for (std::int64_t q = 0; q < c.columns; ++q) {
      float sum = 0.0f;
      for (std::int64_t k = 0; k < a.columns; ++k) {
        sum += row_major_element(b, b_memory, k, q) * row_major_element(a, a_memory, r, k);
      }
      EXPECT_EQ(row_major_element(c, memory, r, q), sum) << r << ", " << q;
    }
  }
}

TEST(ColumnMajor, AColumnMajorLibraryMakesTheRowMajorProducts) {
  for (const auto& [batch, in, out] : {std::tuple{1, 1, 1}, {1, 7, 3}, {3, 5, 1}, {4, 1, 6}, {5, 17, 10}}) {
    SCOPED_TRACE(::testing::Message() << batch << " x " << in << " x " << out);
    expect_row_major_product({batch, in}, {in, out});           // y = x W
    expect_row_major_product({in, batch, true}, {batch, out});  // dW = x^T dz
    expect_row_major_product({batch, out}, {out, in, true});    // dx = dz W^T
  }
}

TEST(ColumnMajor, LeadingDimensionsAreThoseOfTheRows) {
  EXPECT_EQ(column_major({3, 10}), (ColumnMajorMatrix{10, 3, 10, false}));
  EXPECT_EQ(column_major({10, 3, true}), (ColumnMajorMatrix{10, 3, 10, true}));
}

}  // namespace
}  // namespace carillon::testing
