// bias_relu_backward: what dense and conv2d share on the way back from y = relu(z + b).
//
//   dz[r,c] = y[r,c] > 0 ? dy[r,c] : 0   in place of dy; without ReLU dz = dy
//   db[c] = sum over r of dz[r,c]
//
// y, dy: [rows, columns], all extents but the last flattened; db: [columns]. One pass over dy.
#pragma once

#include <vector>

#include "carillon/core/tensor.h"

namespace carillon {

class BiasReluBackward {
 public:
  /// `y` without data: no ReLU.
  BiasReluBackward(const Tensor& y, const Tensor& dy, const Tensor& db);

  /// The order of summation depends on the shapes alone, not on the number of threads.
  void run();

 private:
  Tensor y_, dy_, db_;
  std::size_t long_row_;        ///< rows taken as one
  std::size_t rows_, columns_;  ///< of long rows
  std::size_t rows_per_block_, block_count_;
  std::vector<float> block_sums_;  ///< [block_count, columns]
};

}  // namespace carillon
