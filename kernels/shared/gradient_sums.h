// GradientSums: the GPU kernel for bias_relu_backward, and for gradients of activations if the sums of their columns
// are also needed. Each block sums some columns over its rows. Several blocks have the same columns; the block that
// finishes last adds the sums of these blocks and writes db. GradientSums computes one sum per column, in float32.
// ColumnSums (column_sums.h) computes two sums per column, and adds the blocks' sums in float64.
//
// A block's threads form groups of `lanes` threads. A group processes packs of n neighbouring columns of one row, and
// the groups process the rows in turn. Therefore the reads of a row are contiguous. The shapes fix the order of each
// sum: first the rows of a group, then the groups, then the blocks of rows.
#pragma once

#include <cstdint>
#include <type_traits>

#include "carillon/core/tensor.h"
#include "carillon/device/device.h"
#include "kernels/shared/block_kernel.h"
#include "kernels/shared/pack.h"

namespace carillon {

/// The function that GradientSums uses if there is no activation: dz = dy, so dz is not written.
struct NoActivation {};
/// The function that GradientSums uses for a ReLU. It reads the ReLU's output.
struct ReluMask {
  CARILLON_HOST_DEVICE float operator()(float y, float dy) const { return y > 0.0f ? dy : 0.0f; }
};

/// db[c] = sum over the rows r of dz[r, c], with dz = function(read, dy). Writes dz rounded to T. The sums use dz
/// before the rounding.
template <typename T, int n, typename F>
struct GradientSums {
  static constexpr int threads = 256;
  static constexpr int phases = 5;
  static constexpr int max_lanes = 32;
  static_assert(max_lanes * n <= threads);
  static constexpr int rows_at_once = std::is_same_v<F, NoActivation> ? 4 : 2;  ///< number of rows that are loaded
                                                                                ///< before the first of them is used
  static constexpr bool has_function = !std::is_same_v<F, NoActivation>;
  struct Shared {
    float sums[n][threads];
    bool last_block;  ///< true: this block finishes last among all blocks with its columns
  };

  F function = {};
  const T* read = nullptr;               ///< [rows, columns]; the function reads it in addition to dy
  const T* dy = nullptr;                 ///< [rows, columns]
  T* dz = nullptr;                       ///< [rows, columns]; may be dy
  float* db = nullptr;                   ///< [columns]
  float* block_sums = nullptr;           ///< [row_blocks(), columns], if there are several row blocks
  std::uint32_t* blocks_done = nullptr;  ///< [column_blocks()], if there are several row blocks; 0 between launches
  std::int64_t rows = 0, columns = 0, rows_per_block = 1;
  int lanes = 1;  ///< at most max_lanes; divides `threads`

  int groups() const { return threads / lanes; }
  CARILLON_HOST_DEVICE int column_blocks() const {
    return static_cast<int>((columns + static_cast<std::int64_t>(lanes) * n - 1) / (lanes * n));
  }
  CARILLON_HOST_DEVICE int row_blocks() const { return static_cast<int>((rows + rows_per_block - 1) / rows_per_block); }
  int blocks() const { return column_blocks() * row_blocks(); }

  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared& shared, int block, int thread) const {
    const int row_block = block / column_blocks(), column_block = block % column_blocks();
    const std::int64_t first_column = static_cast<std::int64_t>(column_block) * lanes * n;
    const bool several = row_blocks() > 1;
    if constexpr (phase == 0) sum_rows(shared, row_block, first_column, thread);
    if constexpr (phase == 1) {
      sum_groups(shared, first_column, thread, several ? block_sums + row_block * columns : db);
    }
    if constexpr (phase == 2) {
      if (thread == 0) shared.last_block = several && is_last_block(blocks_done + column_block, row_blocks());
    }
    if constexpr (phase == 3) {
      if (shared.last_block) sum_blocks(shared, first_column, thread);
    }
    if constexpr (phase == 4) {
      if (shared.last_block) sum_groups(shared, first_column, thread, db);
    }
  }

 private:
  CARILLON_HOST_DEVICE void sum_rows(Shared& shared, int row_block, std::int64_t first_column, int thread) const {
    const int lane = thread % lanes, step = threads / lanes;
    const std::int64_t column = first_column + lane * n;
    const std::int64_t begin = row_block * rows_per_block;
    const std::int64_t end = begin + rows_per_block < rows ? begin + rows_per_block : rows;
    Pack<float, n> total = {};
    if (column < columns) {
      for (std::int64_t row = begin + thread / lanes; row < end; row += rows_at_once * step) {
        const auto left = static_cast<std::uint32_t>(end - 1 - row);  // 32 bits, because 64-bit divisions are slow
        add_rows(row * columns + column, static_cast<int>(left / static_cast<std::uint32_t>(step)) + 1, step * columns,
                 total);
      }
    }
    for (int i = 0; i < n; ++i) shared.sums[i][thread] = total.at[i];
  }

  /// Adds the packs at `first`, first + stride, ...: `count` packs, but at most rows_at_once.
  CARILLON_HOST_DEVICE void add_rows(std::int64_t first, int count, std::int64_t stride, Pack<float, n>& total) const {
    Pack<T, n> gradients[rows_at_once];
    [[maybe_unused]] Pack<T, n> values[rows_at_once];
    CARILLON_UNROLL
    for (int k = 0; k < rows_at_once; ++k) {
      const std::int64_t at = first + (k < count ? k : count - 1) * stride;  // clamped: no branch separates the loads
      gradients[k] = load<n>(dy + at);
      if constexpr (has_function) values[k] = load<n>(read + at);
    }
    CARILLON_UNROLL
    for (int k = 0; k < rows_at_once; ++k) {
      if (k >= count) continue;
      Pack<float, n> of_row;
      CARILLON_UNROLL
      for (int i = 0; i < n; ++i) {
        of_row.at[i] = to_float(gradients[k].at[i]);
        if constexpr (has_function) of_row.at[i] = function(to_float(values[k].at[i]), of_row.at[i]);
        total.at[i] += of_row.at[i];
      }
      if constexpr (has_function) store_to_tensor(pack_of<T>(of_row), dz + first + k * stride);
    }
  }

  CARILLON_HOST_DEVICE void sum_groups(const Shared& shared, std::int64_t first_column, int thread, float* to) const {
    if (thread >= lanes * n || first_column + thread >= columns) return;
    float sum = 0.0f;
    for (int group = 0; group < threads / lanes; ++group) sum += shared.sums[thread % n][group * lanes + thread / n];
    to[first_column + thread] = sum;
  }

  /// Does the same as sum_rows, but adds the blocks' sums instead of rows.
  CARILLON_HOST_DEVICE void sum_blocks(Shared& shared, std::int64_t first_column, int thread) const {
    const std::int64_t column = first_column + thread % lanes * n;
    Pack<float, n> total = {};
    if (column < columns) {
      for (int block = thread / lanes; block < row_blocks(); block += threads / lanes) {
        const float* const sums = block_sums + block * columns + column;
        for (int i = 0; i < n; ++i) total.at[i] += sums[i];
      }
    }
    for (int i = 0; i < n; ++i) shared.sums[i][thread] = total.at[i];
  }
};

/// Returns `kernel` after setting its number of lanes and its rows per block.
template <typename T, int n, typename F>
GradientSums<T, n, F> divided(GradientSums<T, n, F> kernel) {
  while (kernel.lanes < kernel.max_lanes && kernel.lanes * n < kernel.columns) kernel.lanes *= 2;
  constexpr std::int64_t max_blocks = 512;             // enough blocks to fill the largest GPU, and few enough to add
                                                       // their sums quickly
  const std::int64_t few_rows = 16 * kernel.groups();  // up to this number of rows, one block has all rows
  const std::int64_t max_row_blocks = max_blocks > kernel.column_blocks() ? max_blocks / kernel.column_blocks() : 1;
  const std::int64_t fewest = kernel.rows_at_once * kernel.groups();
  const std::int64_t even = (kernel.rows + max_row_blocks - 1) / max_row_blocks;
  kernel.rows_per_block = kernel.rows <= few_rows ? few_rows : even > fewest ? even : fewest;
  return kernel;
}

/// The memory that the kernel GradientSums needs in addition to its tensors.
class GradientSumsMemory {
 public:
  /// Allocates the memory for a kernel with the extents of `kernel`.
  template <typename Kernel>
  void allocate(Device& device, const Kernel& kernel) {
    if (kernel.row_blocks() < 2) return;
    block_sums_ = device.allocate(static_cast<std::size_t>(kernel.row_blocks() * kernel.columns) * sizeof(float));
    blocks_done_ = device.allocate(static_cast<std::size_t>(kernel.column_blocks()) * sizeof(std::uint32_t));
  }
  template <typename Kernel>
  Kernel attached(Kernel kernel) const {
    kernel.block_sums = static_cast<float*>(block_sums_.data());
    kernel.blocks_done = static_cast<std::uint32_t*>(blocks_done_.data());
    return kernel;
  }

 private:
  Buffer block_sums_, blocks_done_;  ///< empty if one block has all rows
};

/// Computes the backward pass of y = relu(z + b) with GradientSums. kernels/shared/rows_cpu.h has the formula. CUDA
/// builds only.
///
/// y, dy: [rows, columns] in f32 or bf16; `rows` is the product of all extents except the last. db: [columns] in
/// float32. y and dy start at multiples of 16 bytes.
class BiasReluBackwardCuda {
 public:
  /// If `y` has no data, the op has no ReLU.
  BiasReluBackwardCuda(Device& device, const Tensor& y, const Tensor& dy, const Tensor& db);

  /// Enqueues the kernel. The order of summation depends only on the shapes.
  void run(Stream& stream);

 private:
  Tensor y_, dy_, db_;
  GradientSumsMemory memory_;
};

}  // namespace carillon
