// NewtonSchulzCuda: the iteration of newton_schulz.h on a GPU, with float32 products of cuBLASLt. CUDA builds only.
#pragma once

#include "kernels/shared/matrix_product_cuda.h"
#include "src/optim/newton_schulz.h"

namespace carillon {

/// Temporary memory that several matrices share, one after the other.
struct NewtonSchulzMemory {
  Buffer other, gram, factor;

  NewtonSchulzMemory(std::span<const MatrixShape> shapes, Device& device);
};

class NewtonSchulzCuda {
 public:
  /// Works in place. The memory of `matrix` and `memory` outlive this. Errors: as MatrixProductCuda.
  NewtonSchulzCuda(CudaDevice& device, const Tensor& matrix, const NewtonSchulzMemory& memory);
  /// The matrix must already be divided by its norm.
  void enqueue(std::int64_t steps, Stream& stream) const;

 private:
  Tensor matrix_, other_, gram_, factor_;
  MatrixProductCuda make_gram_, make_square_, multiply_;
};

}  // namespace carillon
