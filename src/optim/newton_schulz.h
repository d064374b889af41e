// Newton-Schulz: a matrix with its singular values drawn towards 1, by products alone.
//
//   X <- X / (|X| + 1e-7)                                |X|: the root of the sum of its squares
//   X <- a X + (b A + c A A) X,  A = X X^T, `steps` times        a, b, c = 3.4445, -4.7750, 2.0315
//
// The coefficients are chosen for their slope at 0: values end between about 0.7 and 1.2, not at 1. Of a matrix with
// more rows than columns the transpose is taken, which is the same. Source: Jordan and others, "Muon: an optimizer for
// hidden layers in neural networks", 2024; github.com/KellerJordan/Muon (there in bf16, here in float32).
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

/// A variable as a row-major matrix: a convolution's [height, width, in, out] is [height * width * in, out].
struct MatrixShape {
  std::int64_t rows = 0, columns = 0;

  std::int64_t smaller_side() const { return rows < columns ? rows : columns; }
};

inline MatrixShape matrix_shape(const Shape& variable) {
  const std::int64_t columns = variable.extents().back();
  return {variable.element_count() / columns, columns};
}

/// On a CPU (a GPU: newton_schulz_cuda.h); on all threads, in blocks of one thread each, so that their number changes
/// no bit.
class NewtonSchulz {
 public:
  /// `matrix`, of `shape`, in place. |matrix| is `norm`.
  void run(std::span<float> matrix, const MatrixShape& shape, double norm, std::int64_t steps);

 private:
  std::vector<float> other_, gram_, factor_;  ///< as large as the largest matrix needs
};

}  // namespace carillon
