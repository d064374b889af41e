// sparse_product.h: dense's products c = a b (+ bias, then ReLU) that skip zeros of a, split over threads.
//
// Every sum has one order, whatever is skipped and however many threads there are: equal bits. How sparse a is changes
// only the time, but for this: a zero of a times an infinity or not-a-number of b adds nothing where it is skipped,
// which depends on a's other elements.
#pragma once

#include "carillon/core/tensor.h"
#include "kernels/dense/sparse_product_kernels.h"
#include "src/device/cpu_device.h"

namespace carillon {

/// Whether a dense op is faster so, where its input has `density` elements of 1 that are not zero and it has `out`
/// outputs: a rule, never of a measurement.
bool sparse_product_pays(Isa isa, float density, std::int64_t out);

class SparseProductPass {
 public:
  struct Task {
    Tensor a;     ///< [rows, steps], or transposed [steps, rows]
    Tensor b;     ///< [steps, columns]
    Tensor bias;  ///< [columns], or without data
    Tensor c;     ///< [rows, columns]
    bool transposed = false, relu = false;
  };
  SparseProductPass(CpuDevice& device, const Task& task);

  void run() const;

 private:
  CpuDevice& device_;
  bool transposed_;
  const SparseProductKernels& kernels_;
  SparseProduct product_;  ///< but for the lists' places, which are in the workspace
  std::int64_t blocks_, panels_;
};

}  // namespace carillon
