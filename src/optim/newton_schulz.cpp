#include "src/optim/newton_schulz.h"

#include <algorithm>
#include <dnnl.hpp>
#include <utility>

#include "carillon/core/error.h"
#include "carillon/core/parallel.h"

namespace carillon {
namespace {

/// A row-major operand of a product. `transposed`: the memory holds the transpose of the operand.
struct Operand {
  const float* data;
  std::int64_t stride;  ///< number of elements from one row in memory to the next
  bool transposed = false;

  char mode() const { return transposed ? 'T' : 'N'; }
  const float* from_row(std::int64_t row) const { return data + (transposed ? row : row * stride); }
  const float* from_column(std::int64_t column) const { return data + (transposed ? column * stride : column); }
};

struct Extents {
  std::int64_t rows, columns, inner;
};

/// Computes c = alpha a b + beta c in blocks along the longer side of c.
void multiply(const Extents& extents, float alpha, const Operand& a, const Operand& b, float beta, float* c) {
  constexpr std::int64_t block = 64;
  const bool by_rows = extents.rows >= extents.columns;
  const std::int64_t length = by_rows ? extents.rows : extents.columns, blocks = ceil_divide(length, block);
  int failures = 0;
#pragma omp parallel for schedule(dynamic) reduction(+ : failures)
  for (std::int64_t i = 0; i < blocks; ++i) {
    const std::int64_t first = i * block, count = std::min(block, length - first);
    const std::int64_t rows = by_rows ? count : extents.rows, columns = by_rows ? extents.columns : count;
    // In a parallel region, oneDNN uses only the calling thread.
    const dnnl_status_t status =
        dnnl_sgemm(a.mode(), b.mode(), rows, columns, extents.inner, alpha, by_rows ? a.from_row(first) : a.data,
                   a.stride, by_rows ? b.data : b.from_column(first), b.stride, beta,
                   c + (by_rows ? first * extents.columns : first), extents.columns);
    failures += status == dnnl_success ? 0 : 1;
  }
  check(failures == 0, "oneDNN failed to compute a matrix product");
}

void scale(std::span<float> values, float factor) {
  parallel_ranges(values.size(), elementwise_grain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) values[i] *= factor;
  });
}

}  // namespace

void NewtonSchulz::run(std::span<float> matrix, const MatrixShape& shape, double norm, std::int64_t steps) {
  using Form = NewtonSchulzForm;
  const std::int64_t side = shape.smaller_side();
  const auto squares = static_cast<std::size_t>(side * side);
  if (other_.size() < matrix.size()) other_.resize(matrix.size());
  if (gram_.size() < squares) gram_.resize(squares);
  if (factor_.size() < squares) factor_.resize(squares);
  scale(matrix, static_cast<float>(1.0 / (norm + Form::epsilon)));
  float *x = matrix.data(), *next = other_.data(), *gram = gram_.data(), *factor = factor_.data();
  const bool tall = shape.rows > shape.columns;  // for a tall matrix, the iteration uses X^T
  const std::int64_t stride = shape.columns;
  for (std::int64_t step = 0; step < steps; ++step) {
    multiply({side, side, tall ? shape.rows : shape.columns}, 1.0f, {x, stride, tall}, {x, stride, !tall}, 0.0f, gram);
    std::copy_n(gram, squares, factor);
    multiply({side, side, side}, Form::c, {gram, side}, {gram, side}, Form::b, factor);
    std::copy_n(x, matrix.size(), next);
    const Extents whole{shape.rows, shape.columns, side};
    const Operand of_x{x, stride}, of_factor{factor, side};
    multiply(whole, 1.0f, tall ? of_x : of_factor, tall ? of_factor : of_x, Form::a, next);
    std::swap(x, next);
  }
  if (x != matrix.data()) std::copy_n(x, matrix.size(), matrix.data());
}

}  // namespace carillon
