// bias_relu_backward: the backward pass of y = relu(z + b) on a CPU, for dense and conv2d.
//
//   dz[r,c] = y[r,c] > 0 ? dy[r,c] : 0   in place of dy; without ReLU dz = dy
//   db[c] = sum over r of dz[r,c]
//
// y, dy: [rows, columns] in f32 or bf16, all extents except the last flattened; db: [columns] in float32. One pass
// over dy.
#pragma once

#include <vector>

#include "carillon/core/tensor.h"
#include "kernels/shared/row_blocks_cpu.h"

namespace carillon {

class BiasReluBackward {
 public:
  /// If `y` has no data, there is no ReLU.
  BiasReluBackward(const Tensor& y, const Tensor& dy, const Tensor& db);

  /// The order of summation depends only on the shapes.
  void run();

 private:
  Tensor y_, dy_, db_;
  std::size_t long_row_;        ///< short rows that are processed as one long row
  std::size_t rows_, columns_;  ///< in long rows
  RowBlocks blocks_;
  std::vector<float> block_sums_;  ///< [blocks_.count, columns]
};

}  // namespace carillon
