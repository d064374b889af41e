// Newton-Schulz iteration: moves the singular values of a matrix towards 1, with matrix products only.
//
//   X <- X / (|X| + 1e-7)                                |X|: Frobenius norm
//   X <- a X + (b A + c A A) X,  A = X X^T, `steps` times        a, b, c = 3.4445, -4.7750, 2.0315
//
// The coefficients maximise the slope at 0. Therefore the final singular values are between about 0.7 and 1.2, and not
// exactly 1. If a matrix has more rows than columns, the iteration uses its transpose, which has the same result.
// Source: Jordan and others, "Muon: an optimizer for hidden layers in neural networks", 2024;
// github.com/KellerJordan/Muon (which uses bf16). On CPUs the iteration uses float32. On GPUs its products use the
// run's arithmetic (newton_schulz_cuda.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "carillon/core/tensor.h"

namespace carillon {

struct NewtonSchulzForm {
  static constexpr float a = 3.4445f, b = -4.7750f, c = 2.0315f;
  static constexpr double epsilon = 1e-7;
};

/// Treats a variable as a row-major matrix. Convolution weights [height, width, in, out] become [height * width * in,
/// out].
struct MatrixShape {
  std::int64_t rows = 0, columns = 0;

  std::int64_t smaller_side() const { return rows < columns ? rows : columns; }
  bool operator==(const MatrixShape&) const = default;
};

inline MatrixShape matrix_shape(const Shape& variable) {
  const std::int64_t columns = variable.extents().back();
  return {variable.element_count() / columns, columns};
}

/// Runs the iteration on a CPU with all threads (on a GPU: newton_schulz_cuda.h). The matrix is divided into blocks of
/// fixed size, and one thread computes each block. Therefore the bits do not depend on the thread count.
class NewtonSchulz {
 public:
  /// Orthogonalises `matrix` in place. `norm`: the Frobenius norm |matrix|.
  void run(std::span<float> matrix, const MatrixShape& shape, double norm, std::int64_t steps);

 private:
  std::vector<float> other_, gram_, factor_;  ///< memory for the largest matrix so far
};

}  // namespace carillon
