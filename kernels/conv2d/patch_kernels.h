// A convolution with windows that tile its input (windows_tile_input), on a GPU. The convolution is computed as the
// matrix product of the patches and the weights. The kernels copy images to the matrix of their patches and back.
//
//   y = patches W + b,  dW = patches^T dz,  patches of dx = dz W^T
//
// Windows that tile an image read each pixel at most once. The matrix of patches has the shape [batch * output rows *
// output columns, window rows * window columns * channels]. A row of the matrix holds the pixels of a window, row by
// row. Pixels after the last window of a row or column belong to no patch.
//
// W has the parameter's own layout, [window rows * window columns * in, filters]. Therefore the product for dW writes
// its float32 result directly to the memory of the parameter's gradient. For windows of one pixel, x is the matrix of
// patches. For other windows the op has a buffer of the size of x: it contains the patches of x from forward to
// backward, and then the patches of dx.
#pragma once

#include <cstdint>
#include <limits>
#include <numeric>

#include "kernels/conv2d/conv2d.h"
#include "kernels/shared/pack.h"

namespace carillon {

/// Maps images to patches, in packs. A pack consists of neighbouring elements of one row of a window.
struct PatchTiling {
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

  std::uint32_t height, row_packs;                ///< rows of an image, and packs in a row
  std::uint32_t output_rows, output_columns;      ///< rows and columns of windows
  std::uint32_t window_height, window_row_packs;  ///< rows of a window, and packs in a row

  /// Returns the position of pack `i` of the images in the matrix of patches, or `none` if the pack belongs to no
  /// patch.
  CARILLON_HOST_DEVICE std::uint32_t place(std::uint32_t i) const {
    const std::uint32_t line = i / row_packs, in_line = i % row_packs;
    const std::uint32_t image = line / height, row = line % height;
    const std::uint32_t p = row / window_height, q = in_line / window_row_packs;
    if (p >= output_rows || q >= output_columns) return none;
    const std::uint32_t patch = (image * output_rows + p) * output_columns + q;
    return (patch * window_height + row % window_height) * window_row_packs + in_line % window_row_packs;
  }
};

/// Returns a number that divides both the length of a window's row and the length of an image's row, in elements.
inline std::int64_t patch_pack_extent(const Conv2dGeometry& geometry, std::int64_t channels) {
  return std::gcd(geometry.horizontal.window, geometry.horizontal.input) * channels;
}

/// `pack`: number of elements per pack; a divisor of patch_pack_extent.
inline PatchTiling patch_tiling(const Conv2dGeometry& geometry, std::int64_t channels, int pack) {
  const SlidingWindow &rows = geometry.vertical, &columns = geometry.horizontal;
  const auto narrow = [](std::int64_t extent) { return static_cast<std::uint32_t>(extent); };
  return {.height = narrow(rows.input),
          .row_packs = narrow(columns.input * channels / pack),
          .output_rows = narrow(rows.output),
          .output_columns = narrow(columns.output),
          .window_height = narrow(rows.window),
          .window_row_packs = narrow(columns.window * channels / pack)};
}

/// Each thread copies a pack of n elements of the images to the patches.
template <typename T, int n>
struct GatherPatches {
  PatchTiling tiling;
  const T* images;
  T* patches;

  CARILLON_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::uint32_t place = tiling.place(static_cast<std::uint32_t>(i));
    if (place != PatchTiling::none) store(load<n>(images + i * n), patches + std::int64_t{place} * n);
  }
};

/// Each thread copies a pack of n elements of the patches to the images. The thread writes 0 to pixels that belong to
/// no patch.
template <typename T, int n>
struct ScatterPatches {
  PatchTiling tiling;
  const T* patches;
  T* images;

  CARILLON_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::uint32_t place = tiling.place(static_cast<std::uint32_t>(i));
    store(place == PatchTiling::none ? Pack<T, n>{} : load<n>(patches + std::int64_t{place} * n), images + i * n);
  }
};

/// Makes the op of make_conv2d_cuda for windows that tile the input. x must have the same number of channels as the
/// weights.
std::unique_ptr<Op> make_patch_product_cuda(const Conv2dGeometry& geometry, const OpContext& context,
                                            const OpTensors& tensors);

}  // namespace carillon
