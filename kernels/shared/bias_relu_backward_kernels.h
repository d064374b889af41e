// The kernel of bias_relu_backward on a GPU: blocks sum columns of their rows, and the last block to finish with some
// columns adds the blocks' sums to db.
//
// A block's threads form groups of `lanes` threads. A group processes packs of n neighbouring columns of one row; the
// groups take the rows in turn. So a row is read contiguously, and the shapes fix the order of each sum: rows of a
// group, groups, blocks of rows.
#pragma once

#include <cstdint>

#include "kernels/shared/pack.h"

namespace carillon {

/// db[c] = sum over the rows r of dz[r, c]. With `relu`, dz = y > 0 ? dy : 0 is written to dy; otherwise dz = dy.
template <typename T, int n, bool relu>
struct ColumnSums {
  static constexpr int threads = 256;
  static constexpr int phases = 5;
  static constexpr int max_lanes = 32;
  static_assert(max_lanes * n <= threads);
  static constexpr int rows_at_once = 4;  ///< rows that a thread loads before it uses the first
  struct Shared {
    float sums[n][threads];
    bool last_block;  ///< this block is the last one with these columns
  };

  const T* y = nullptr;                  ///< [rows, columns]; only with `relu`
  T* dy = nullptr;                       ///< [rows, columns]
  float* db = nullptr;                   ///< [columns]
  float* block_sums = nullptr;           ///< [row_blocks(), columns], if there are several row blocks
  std::uint32_t* blocks_done = nullptr;  ///< [column_blocks()], if there are several row blocks; 0 between launches
  std::int64_t rows = 0, columns = 0, rows_per_block = 1;
  int lanes = 1;  ///< at most max_lanes, divides `threads`

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
      if (thread == 0) shared.last_block = several && finish_block(column_block);
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

  /// Adds `count` packs at `first`, first + stride, ...; at most rows_at_once are added.
  CARILLON_HOST_DEVICE void add_rows(std::int64_t first, int count, std::int64_t stride, Pack<float, n>& total) const {
    Pack<float, n> dz[rows_at_once] = {};
    [[maybe_unused]] Pack<float, n> out[rows_at_once] = {};
    for (int k = 0; k < rows_at_once; ++k) {
      if (k >= count) continue;
      dz[k] = load_floats<n>(dy + first + k * stride);
      if constexpr (relu) out[k] = load_floats<n>(y + first + k * stride);
    }
    for (int k = 0; k < rows_at_once; ++k) {
      if (k >= count) continue;
      for (int i = 0; i < n; ++i) {
        if (relu && !(out[k].at[i] > 0.0f)) dz[k].at[i] = 0.0f;
        total.at[i] += dz[k].at[i];
      }
      if constexpr (relu) store_floats(dz[k], dy + first + k * stride);
    }
  }

  CARILLON_HOST_DEVICE void sum_groups(const Shared& shared, std::int64_t first_column, int thread, float* to) const {
    if (thread >= lanes * n || first_column + thread >= columns) return;
    float sum = 0.0f;
    for (int group = 0; group < threads / lanes; ++group) sum += shared.sums[thread % n][group * lanes + thread / n];
    to[first_column + thread] = sum;
  }

  /// Returns whether all other blocks of these columns have finished.
  CARILLON_HOST_DEVICE bool finish_block(int column_block) const {
    std::uint32_t* const done = blocks_done + column_block;
    if (fetch_increment(done) + 1 != static_cast<std::uint32_t>(row_blocks())) return false;
    *done = 0;
    return true;
  }

  /// Like sum_rows, over the blocks' sums.
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

/// Divides the rows into blocks and assigns threads to them.
template <typename T, int n, bool relu>
ColumnSums<T, n, relu> column_sums(const T* y, T* dy, float* db, std::int64_t rows, std::int64_t columns) {
  ColumnSums<T, n, relu> kernel{.y = y, .dy = dy, .db = db, .rows = rows, .columns = columns};
  while (kernel.lanes < kernel.max_lanes && kernel.lanes * n < columns) kernel.lanes *= 2;
  constexpr std::int64_t max_blocks = 512;             // fill the largest GPU, and are quick to sum
  const std::int64_t few_rows = 16 * kernel.groups();  // too few for a second pass to pay
  const std::int64_t max_row_blocks = max_blocks > kernel.column_blocks() ? max_blocks / kernel.column_blocks() : 1;
  const std::int64_t fewest = ColumnSums<T, n, relu>::rows_at_once * kernel.groups();
  const std::int64_t even = (rows + max_row_blocks - 1) / max_row_blocks;
  kernel.rows_per_block = rows <= few_rows ? few_rows : even > fewest ? even : fewest;
  return kernel;
}

}  // namespace carillon
