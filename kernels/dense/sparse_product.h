// sparse_product.h: dense's products c = a b (+ bias, then ReLU). They skip zeros of a, and are divided among threads.
//
// The order of every sum depends neither on the number of threads nor on the zeros, so the results have equal bits. The
// number of zeros in matrix a changes only the time, with one exception. If a zero of a is skipped, its product with an
// infinity or NaN of b adds nothing. Whether a zero is skipped depends on other elements of a.
#pragma once

#include "carillon/core/tensor.h"
#include "kernels/dense/sparse_product_kernels.h"
#include "src/device/cpu_device.h"

namespace carillon {

/// True if skipping zeros is faster for a dense op with `out` outputs. `density`: fraction of input elements that are
/// not zero. This is a fixed rule, so that results do not depend on measurements.
bool sparse_product_pays(Isa isa, float density, std::int64_t out);

class SparseProductPass {
 public:
  struct Task {
    Tensor a;     ///< [rows, steps], or transposed [steps, rows]
    Tensor b;     ///< [steps, columns]
    Tensor bias;  ///< [columns], or a tensor without data
    Tensor c;     ///< [rows, columns]
    bool transposed = false, relu = false;
  };
  SparseProductPass(CpuDevice& device, const Task& task);

  void run() const;

 private:
  CpuDevice& device_;
  bool transposed_;
  const SparseProductKernels& kernels_;
  SparseProduct product_;  ///< each run sets the pointers to the lists, because the lists are in the workspace, which
                           ///< may move
  std::int64_t blocks_, panels_;
};

}  // namespace carillon
