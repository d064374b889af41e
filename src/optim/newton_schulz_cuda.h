// NewtonSchulzCuda: the iteration of newton_schulz.h on a GPU, by cuBLASLt's products in float32. CUDA builds only.
#pragma once

#include "kernels/shared/matrix_product_cuda.h"
#include "src/optim/newton_schulz.h"

namespace carillon {

/// Memory that several matrices use, one after the other.
struct NewtonSchulzMemory {
  Buffer other, gram, factor;

  NewtonSchulzMemory(std::span<const MatrixShape> shapes, Device& device);
};

class NewtonSchulzCuda {
 public:
  /// `matrix`, in place; its memory and `memory` outlive this. Errors: as MatrixProductCuda.
  NewtonSchulzCuda(CudaDevice& device, const Tensor& matrix, const NewtonSchulzMemory& memory);
  /// Of a matrix that is divided by its norm already.
  void enqueue(std::int64_t steps, Stream& stream) const;

 private:
  Tensor matrix_, other_, gram_, factor_;
  MatrixProductCuda make_gram_, make_square_, multiply_;
};

}  // namespace carillon
