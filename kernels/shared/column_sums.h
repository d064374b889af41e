// Computes two sums for each column of a matrix [rows, columns] on a GPU. ColumnSums adds the rows of each block.
// Several blocks have the same columns. If there is a ColumnFinish, the block that finishes last adds the sums of all
// these blocks. If there is no ColumnFinish, the kernel CombineColumnSums adds the blocks' sums.
//
// A block of ColumnSums processes some rows of some columns. The threads of a block form groups of `lanes` threads. A
// group processes one row at a time, and each of its threads processes a pack of n neighbouring columns. The groups
// process the rows in turn. Therefore the reads of a row are contiguous. The shapes fix the order of each sum: first
// the rows of a group, then the groups, then the blocks of rows.
#pragma once

#include <cstdint>

#include "kernels/shared/block_kernel.h"
#include "kernels/shared/pack.h"

namespace carillon {

/// The division of [rows, columns] into blocks.
struct ColumnCut {
  static constexpr int threads = 256;
  static constexpr int max_lanes = 32;
  static constexpr int fewest_rows = 4;  ///< smallest number of rows per thread if there are several blocks

  std::int64_t rows = 0, columns = 0, rows_per_block = 1;
  int lanes = 1;  ///< at most max_lanes; divides `threads`
  int n = 1;      ///< number of elements per pack

  CARILLON_HOST_DEVICE int groups() const { return threads / lanes; }
  CARILLON_HOST_DEVICE int column_blocks() const { return static_cast<int>((columns + lanes * n - 1) / (lanes * n)); }
  CARILLON_HOST_DEVICE int row_blocks() const { return static_cast<int>((rows + rows_per_block - 1) / rows_per_block); }
  CARILLON_HOST_DEVICE std::int64_t rows_of(int row_block) const {
    const std::int64_t left = rows - row_block * rows_per_block;
    return left < rows_per_block ? left : rows_per_block;
  }
};

/// Divides a matrix into blocks. If `max_lanes` is small, there are more blocks of columns, and several of them can run
/// their ColumnFinish at the same time.
inline ColumnCut column_cut(std::int64_t rows, std::int64_t columns, int pack_size,
                            int max_lanes = ColumnCut::max_lanes) {
  ColumnCut cut{.rows = rows, .columns = columns, .n = pack_size};
  while (cut.lanes < max_lanes && cut.lanes * cut.n < columns) cut.lanes *= 2;
  constexpr std::int64_t max_blocks = 264;  // 2 blocks on each of the 132 SMs of an H200: with 128 registers per
                                            // thread, all these blocks run at the same time
  const std::int64_t max_row_blocks = max_blocks > cut.column_blocks() ? max_blocks / cut.column_blocks() : 1;
  const std::int64_t even = (rows + max_row_blocks - 1) / max_row_blocks, fewest = cut.fewest_rows * cut.groups();
  cut.rows_per_block = even > fewest ? even : fewest;
  return cut;
}

/// The two sums of each block of rows: each of the two arrays is [row_blocks, columns].
struct ColumnParts {
  double *first = nullptr, *second = nullptr;
};

/// Base of a struct that uses the sums of all rows. Among the blocks of ColumnSums with the same columns, only the
/// block that finishes last runs this struct. A derived struct has
///
///   template <int phase> void run(Shared&, const ColumnCut&, const ColumnParts&, int column_block, int thread) const;
///
/// The block's threads form groups of `width` threads, one thread per column. The groups process the blocks of rows in
/// turn.
struct ColumnFinish {
  static constexpr int threads = ColumnCut::threads;
  static constexpr int phases = 2;
  static constexpr int parts_at_once = 8;  ///< number of parts that a thread loads before it uses the first part
  struct Shared {
    double first[threads], second[threads];
  };

 protected:
  CARILLON_HOST_DEVICE static int width(const ColumnCut& cut) { return cut.lanes * cut.n; }
  CARILLON_HOST_DEVICE static std::int64_t column_of(const ColumnCut& cut, int column_block, int thread) {
    return static_cast<std::int64_t>(column_block) * width(cut) + thread % width(cut);
  }
  /// Calls add(row_block, first sum of the block, its second sum, total of the first sums, total of the second sums)
  /// for each of the thread's row blocks.
  template <typename Add>
  CARILLON_HOST_DEVICE static void sum_parts(Shared& shared, const ColumnCut& cut, const ColumnParts& parts,
                                             int column_block, int thread, const Add& add) {
    const std::int64_t column = column_of(cut, column_block, thread);
    const int step = threads / width(cut), count = column < cut.columns ? cut.row_blocks() : 0;
    double first_sum = 0.0, second_sum = 0.0;
    for (int block = thread / width(cut); block < count; block += parts_at_once * step) {
      double first[parts_at_once], second[parts_at_once];
      CARILLON_UNROLL
      for (int k = 0; k < parts_at_once; ++k) {
        const int loaded = block + k * step < count ? block + k * step : count - 1;  // clamped: no branch separates the
                                                                                     // loads
        first[k] = parts.first[loaded * cut.columns + column];
        second[k] = parts.second[loaded * cut.columns + column];
      }
      CARILLON_UNROLL
      for (int k = 0; k < parts_at_once; ++k) {
        if (block + k * step < count) add(block + k * step, first[k], second[k], first_sum, second_sum);
      }
    }
    shared.first[thread] = first_sum;
    shared.second[thread] = second_sum;
  }
  /// Adds the parts (first and second) of the thread's row blocks. Stores the two totals in `shared`.
  CARILLON_HOST_DEVICE static void sum_parts(Shared& shared, const ColumnCut& cut, const ColumnParts& parts,
                                             int column_block, int thread) {
    sum_parts(shared, cut, parts, column_block, thread,
              [](int, double first, double second, double& first_sum, double& second_sum) {
                first_sum += first;
                second_sum += second;
              });
  }
  /// Returns the sum of `sums` over the groups, for one column.
  CARILLON_HOST_DEVICE static double total(const double (&sums)[threads], const ColumnCut& cut, int column) {
    double sum = 0.0;
    for (int at = column; at < threads; at += width(cut)) sum += sums[at];
    return sum;
  }
};

/// A ColumnFinish that does nothing, because the next kernel reads the blocks' sums.
struct KeepParts {
  static constexpr int phases = 0;
  struct Shared {};
};

/// Computes both sums of Terms over each block of rows. If Terms has store(row, at), ColumnSums calls it for each row,
/// after Terms::row(at) and before Terms::add. store may change the row.
template <int n, typename Terms, typename Finish = KeepParts>
struct ColumnSums {
  static constexpr int threads = ColumnCut::threads;
  static constexpr bool finishes = Finish::phases > 0;
  static constexpr int phases = finishes ? 3 + Finish::phases : 2;
  /// Number of rows that a thread loads before it uses the first row. An H200 runs 2 * 256 threads per SM (column_cut).
  /// With 128 bytes per thread, 64 KB are in flight; the memory needs about 25 KB in flight per SM (bandwidth 4.2 TB/s,
  /// latency 0.8 us, 132 SMs).
  static constexpr int rows_at_once = sizeof(typename Terms::Row) <= pack_bytes ? 8 : 4;
  struct Shared {
    float first[n][threads], second[n][threads];
    bool last_block;  ///< true: this block finishes last among all blocks with its columns
    typename Finish::Shared finish;
  };

  Terms terms;
  ColumnCut cut;
  ColumnParts parts;
  Finish finish = {};
  std::uint32_t* blocks_done = nullptr;  ///< [column_blocks()], if there is a ColumnFinish; 0 between launches

  int blocks() const { return cut.column_blocks() * cut.row_blocks(); }

  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared& shared, int block, int thread) const {
    const int row_block = block / cut.column_blocks(), column_block = block % cut.column_blocks();
    const std::int64_t first_column = static_cast<std::int64_t>(column_block) * cut.lanes * n;
    if constexpr (phase == 0) sum_rows(shared, row_block, first_column, thread);
    if constexpr (phase == 1) sum_groups(shared, row_block, first_column, thread);
    if constexpr (phase == 2) {
      if (thread == 0) shared.last_block = is_last_block(blocks_done + column_block, cut.row_blocks());
    }
    if constexpr (phase > 2) {
      if (shared.last_block) finish.template run<phase - 3>(shared.finish, cut, parts, column_block, thread);
    }
  }

 private:
  CARILLON_HOST_DEVICE void sum_rows(Shared& shared, int row_block, std::int64_t first_column, int thread) const {
    const int step = cut.groups();
    const std::int64_t column = first_column + thread % cut.lanes * n;
    Pack<float, n> first = {}, second = {};
    if (column < cut.columns) {
      const std::int64_t begin = row_block * cut.rows_per_block, end = begin + cut.rows_of(row_block);
      const auto fixed = terms.fixed(begin * cut.columns + column, column);
      for (std::int64_t row = begin + thread / cut.lanes; row < end; row += rows_at_once * step) {
        add_rows(fixed, row * cut.columns + column, (end - 1 - row) / step + 1, step * cut.columns, first, second);
      }
    }
    for (int i = 0; i < n; ++i) {
      shared.first[i][thread] = first.at[i];
      shared.second[i][thread] = second.at[i];
    }
  }

  /// Adds the packs at `at`, at + stride, ...: `count` packs, but at most rows_at_once.
  CARILLON_HOST_DEVICE void add_rows(const typename Terms::Fixed& fixed, std::int64_t at, std::int64_t count,
                                     std::int64_t stride, Pack<float, n>& first, Pack<float, n>& second) const {
    typename Terms::Row rows[rows_at_once];
    CARILLON_UNROLL
    for (int k = 0; k < rows_at_once; ++k) {
      rows[k] = terms.row(at + (k < count ? k : count - 1) * stride);  // clamped: no branch separates the loads
    }
    CARILLON_UNROLL
    for (int k = 0; k < rows_at_once; ++k) {
      if (k >= count) continue;
      if constexpr (requires { terms.store(rows[k], at); }) terms.store(rows[k], at + k * stride);
      CARILLON_UNROLL
      for (int i = 0; i < n; ++i) terms.add(fixed, rows[k], i, first.at[i], second.at[i]);
    }
  }

  CARILLON_HOST_DEVICE void sum_groups(const Shared& shared, int row_block, std::int64_t first_column,
                                       int thread) const {
    const std::int64_t column = first_column + thread;
    if (thread >= cut.lanes * n || column >= cut.columns) return;
    double first = 0.0, second = 0.0;
    for (int group = 0; group < cut.groups(); ++group) {
      first += shared.first[thread % n][group * cut.lanes + thread / n];
      second += shared.second[thread % n][group * cut.lanes + thread / n];
    }
    terms.finish(row_block * cut.rows_per_block * cut.columns + column, cut.rows_of(row_block), first, second);
    parts.first[row_block * cut.columns + column] = first;
    parts.second[row_block * cut.columns + column] = second;
  }
};

/// Adds the sums that the blocks of ColumnSums have written, or the blocks of another kernel with the same `cut`.
struct CombineColumnSums : ColumnFinish {
  ColumnCut cut;
  ColumnParts parts;
  float *first = nullptr, *second = nullptr;  ///< [columns]; null: the sums are not computed

  int blocks() const { return columns_of_few_lanes().column_blocks(); }
  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared& shared, int block, int thread) const {
    const ColumnCut of = columns_of_few_lanes();
    if constexpr (phase == 0) {
      sum_parts(shared, of, parts, block, thread);
    } else {
      const std::int64_t c = column_of(of, block, thread);
      if (thread >= width(of) || c >= of.columns) return;
      if (first != nullptr) first[c] = static_cast<float>(total(shared.first, of, thread));
      if (second != nullptr) second[c] = static_cast<float>(total(shared.second, of, thread));
    }
  }

 private:
  /// Returns a cut with the rows of `cut`, but with fewer columns per block and therefore more blocks.
  CARILLON_HOST_DEVICE ColumnCut columns_of_few_lanes() const {
    ColumnCut of = cut;
    of.lanes = 4;
    of.n = 1;
    return of;
  }
};

}  // namespace carillon
