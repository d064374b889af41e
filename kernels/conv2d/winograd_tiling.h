// How Winograd's convolutions cut images into tiles and the workspace into pieces.
#pragma once

#include <cstddef>
#include <cstdint>

#include "carillon/core/parallel.h"
#include "carillon/core/tensor.h"
#include "carillon/device/device.h"
#include "kernels/conv2d/winograd_kernels.h"

namespace carillon {

/// The inputs x [n, h, w, c] and outputs y [n, p, q, o] of a convolution, in tiles of the same numbers.
struct WinogradTiling {
  WinogradImages inputs, outputs;
  std::int64_t tiles;  ///< of all images

  /// `rows_before`, `columns_before`: of zeros before the image.
  WinogradTiling(const Tensor& x, const Tensor& y, std::int64_t tile, std::int64_t rows_before,
                 std::int64_t columns_before)
      : inputs{.height = x.shape[1],
               .width = x.shape[2],
               .channels = x.shape[3],
               .tiles_down = ceil_divide(y.shape[1], tile),
               .tiles_across = ceil_divide(y.shape[2], tile),
               .first_row = -rows_before,
               .first_column = -columns_before},
        outputs{.height = y.shape[1],
                .width = y.shape[2],
                .channels = y.shape[3],
                .tiles_down = inputs.tiles_down,
                .tiles_across = inputs.tiles_across,
                .first_row = 0,
                .first_column = 0},
        tiles(x.shape[0] * inputs.tiles_down * inputs.tiles_across) {}
};

/// Memory laid out piece by piece, in floats, each piece aligned.
class WorkspaceLayout {
 public:
  /// Where the piece begins.
  std::size_t add(std::int64_t floats) {
    const std::size_t at = total_;
    total_ += aligned_float_count(static_cast<std::size_t>(floats));
    return at;
  }
  std::size_t bytes() const { return total_ * sizeof(float); }

 private:
  std::size_t total_ = 0;
};

}  // namespace carillon
