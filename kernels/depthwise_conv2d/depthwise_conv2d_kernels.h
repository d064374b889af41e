// The kernels of depthwise_conv2d on a GPU. A thread processes packs of n channels.
//
//   forward            DepthwiseConvolve
//   gradient of x      DepthwiseConvolve with turned filters; with a stride above 1, DepthwiseInputGradient
//   gradient of W      DepthwiseFilterGradient, then SumBlocks
//
// A thread of DepthwiseConvolve computes several columns of an output row, and a thread of DepthwiseFilterGradient sums
// several columns of a filter row. Both kernels load each pixel into registers once for all these columns. Neighbouring
// threads read the same pixels from the first-level cache.
#pragma once

#include <cstdint>

#include "kernels/shared/pack.h"

namespace carillon {

// Template arguments. `taps`: number of filter columns that are processed together; it must divide the window.
// `stride`: 1, or 0 for any stride.

inline constexpr int depthwise_columns = 4;  ///< number of output columns that are processed together

CARILLON_HOST_DEVICE inline int depthwise_column_blocks(const PackedPool::Axis& axis) {
  return (axis.output + depthwise_columns - 1) / depthwise_columns;
}

template <int n>
CARILLON_HOST_DEVICE inline void add_product(const Pack<float, n>& a, const Pack<float, n>& b, Pack<float, n>& sum) {
  for (int k = 0; k < n; ++k) sum.at[k] += a.at[k] * b.at[k];
}

template <int n>
CARILLON_HOST_DEVICE inline void add(const Pack<float, n>& addend, Pack<float, n>& sum) {
  for (int k = 0; k < n; ++k) sum.at[k] += addend.at[k];
}

/// One row of an image, from which threads read packs. Packs outside the image are zeros.
template <typename T, int n>
struct DepthwiseRow {
  const T* first;  ///< the pack of the pixel in column 0
  int columns;
  std::uint32_t packs;  ///< number of packs of a pixel

  CARILLON_HOST_DEVICE Pack<float, n> pixel(int column) const {
    if (column < 0 || column >= columns) return {};
    return load_floats<n>(first + static_cast<std::int64_t>(column) * packs * n);
  }
};

/// Calls visit(q, j, pixel) with the pixel in column `left` + q * stride + j, for each output column q of
/// depthwise_columns and each filter column j < taps. Loads a pixel once if the stride is 1.
template <int n, int taps, int stride, typename T, typename Visit>
CARILLON_HOST_DEVICE inline void visit_pixels(const DepthwiseRow<T, n>& row, int left, int step, const Visit& visit) {
  if constexpr (stride == 1) {
    for (int u = 0; u < depthwise_columns + taps - 1; ++u) {
      const Pack<float, n> pixel = row.pixel(left + u);
      for (int q = 0; q < depthwise_columns; ++q) {
        if (u >= q && u - q < taps) visit(q, u - q, pixel);
      }
    }
  } else {
    for (int q = 0; q < depthwise_columns; ++q) {
      for (int j = 0; j < taps; ++j) visit(q, j, row.pixel(left + q * step + j));
    }
  }
}

/// For ForEachElement over [batch, output height, column blocks, packs]. Each element is one pack of channels in
/// depthwise_columns output columns.
template <typename T, int n, int taps, int stride>
struct DepthwiseConvolve {
  PackedPool pool;
  const T* x;            ///< [batch, height, width, channels]
  const float* weights;  ///< [window, window, channels]
  const float* biases;   ///< [channels], or null
  T* y;                  ///< [batch, output height, output width, channels]
  bool turned = false;   ///< true: the filters are turned by 180 degrees
  bool adds = false;     ///< true: the results are added to y

  CARILLON_HOST_DEVICE void operator()(std::int64_t index) const {
    const auto& [vertical, horizontal, packs] = pool;
    const PackedPool::Place at = pool.place(index, vertical.output, depthwise_column_blocks(horizontal));
    const Interval<int> rows = offsets_inside(vertical, at.row);
    const int top = at.row * vertical.stride - vertical.before, column = at.column * depthwise_columns;
    const int left = column * horizontal.stride - horizontal.before;
    Pack<float, n> sums[depthwise_columns] = {};
    if (biases != nullptr) {
      for (Pack<float, n>& sum : sums) sum = load<n>(biases + at.pack * n);
    }
    for (int i = rows.first; i < rows.last; ++i) {
      const DepthwiseRow<T, n> row{x + pool.offset<n>(at, top + i, 0, vertical.input, horizontal.input),
                                   horizontal.input, packs};
      for (int j = 0; j < horizontal.window; j += taps) add_taps(row, left + j, at.pack, i, j, sums);
    }
    T* const to = y + pool.offset<n>(at, at.row, column, vertical.output, horizontal.output);
    for (int q = 0; q < depthwise_columns; ++q) {
      if (column + q >= horizontal.output) continue;
      T* const pixel = to + static_cast<std::int64_t>(q) * packs * n;
      if (adds) add(load_floats<n>(pixel), sums[q]);
      store_floats(sums[q], pixel);
    }
  }

 private:
  CARILLON_HOST_DEVICE void add_taps(const DepthwiseRow<T, n>& row, int left, std::uint32_t pack, int i, int first,
                                     Pack<float, n> (&sums)[depthwise_columns]) const {
    const int window = pool.horizontal.window, last_tap = pool.vertical.window * window - 1;
    Pack<float, n> filter[taps];
    for (int j = 0; j < taps; ++j) {
      const int tap = i * window + first + j;
      filter[j] = load<n>(weights + (static_cast<std::int64_t>(turned ? last_tap - tap : tap) * pool.packs + pack) * n);
    }
    visit_pixels<n, taps, stride>(row, left, pool.horizontal.stride, [&](int q, int j, const Pack<float, n>& pixel) {
      add_product(pixel, filter[j], sums[q]);
    });
  }
};

/// Each element is a pack of dx. The stride may be any number.
template <typename T, int n>
struct DepthwiseInputGradient {
  PackedPool pool;
  const T* dy;           ///< [batch, output height, output width, channels]
  const float* weights;  ///< [window, window, channels]
  T* dx;                 ///< [batch, height, width, channels]

  CARILLON_HOST_DEVICE void operator()(std::int64_t index) const {
    const auto& [vertical, horizontal, packs] = pool;
    const PackedPool::Place at = pool.place(index, vertical.input, horizontal.input);
    const Interval<int> ps = windows_over(vertical, at.row), qs = windows_over(horizontal, at.column);
    Pack<float, n> sum = {};  // stays 0 if no window contains the pixel
    for (int p = ps.first; p < ps.last; ++p) {
      for (int q = qs.first; q < qs.last; ++q) {
        const int i = at.row + vertical.before - p * vertical.stride;
        const int j = at.column + horizontal.before - q * horizontal.stride;
        const std::int64_t tap = i * horizontal.window + j;
        add_product(load_floats<n>(dy + pool.offset<n>(at, p, q, vertical.output, horizontal.output)),
                    load<n>(weights + (tap * packs + at.pack) * n), sum);
      }
    }
    store_floats(sum, dx + index * n);
  }
};

/// The division of the filters' gradient into blocks. A block sums over some of the items, for `taps` columns of one
/// filter row and `lanes` packs of channels. An item is depthwise_columns columns of a row of dy.
struct DepthwiseCut {
  static constexpr int lanes = 8;

  int items = 0, items_per_block = 1, column_blocks = 1, channel_blocks = 1, tap_blocks = 1;

  CARILLON_HOST_DEVICE int item_blocks() const { return (items + items_per_block - 1) / items_per_block; }
  int blocks() const { return item_blocks() * channel_blocks * tap_blocks; }
};

inline DepthwiseCut depthwise_cut(const PackedPool& pool, std::int64_t batch, int taps) {
  // The number of blocks is large enough for the largest GPU. Each group of threads has at least one item.
  constexpr int max_blocks = 2048, fewest_items = 32;
  DepthwiseCut cut{.column_blocks = depthwise_column_blocks(pool.horizontal),
                   .channel_blocks = static_cast<int>((pool.packs + DepthwiseCut::lanes - 1) / DepthwiseCut::lanes),
                   .tap_blocks = pool.vertical.window * pool.horizontal.window / taps};
  cut.items = static_cast<int>(batch) * pool.vertical.output * cut.column_blocks;
  const int others = cut.channel_blocks * cut.tap_blocks, item_blocks = max_blocks > others ? max_blocks / others : 1;
  const int even = (cut.items + item_blocks - 1) / item_blocks;
  cut.items_per_block = even > fewest_items ? even : fewest_items;
  return cut;
}

/// The shapes fix the order of each sum: first the items of a group of threads, then the groups, then the blocks of
/// items.
template <typename T, int n, int taps, int stride>
struct DepthwiseFilterGradient {
  static constexpr int threads = 256;
  static constexpr int phases = 2;
  static constexpr int lanes = DepthwiseCut::lanes, groups = threads / lanes;
  static_assert(taps * lanes * n <= threads);
  struct Shared {
    float sums[taps][n][threads];
  };

  PackedPool pool;
  DepthwiseCut cut;
  const T *x, *dy;  ///< [batch, height, width, channels], [batch, output height, output width, channels]
  float* sums;      ///< [item blocks, window, window, channels]

  int blocks() const { return cut.blocks(); }

  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared& shared, int block, int thread) const {
    const int item_block = block / (cut.channel_blocks * cut.tap_blocks);
    const int tap_block = block / cut.channel_blocks % cut.tap_blocks, channel_block = block % cut.channel_blocks;
    if constexpr (phase == 0) sum_items(shared, item_block, tap_block * taps, channel_block * lanes, thread);
    if constexpr (phase == 1) sum_groups(shared, item_block, tap_block * taps, channel_block * lanes, thread);
  }

 private:
  CARILLON_HOST_DEVICE void sum_items(Shared& shared, int item_block, int tap, int first_pack, int thread) const {
    const std::uint32_t pack = static_cast<std::uint32_t>(first_pack + thread % lanes);
    const int begin = item_block * cut.items_per_block;
    const int end = begin + cut.items_per_block < cut.items ? begin + cut.items_per_block : cut.items;
    Pack<float, n> totals[taps] = {};
    if (pack < pool.packs) {
      for (int item = begin + thread / lanes; item < end; item += groups) add_item(item, tap, pack, totals);
    }
    for (int j = 0; j < taps; ++j) {
      for (int k = 0; k < n; ++k) shared.sums[j][k][thread] = totals[j].at[k];
    }
  }

  CARILLON_HOST_DEVICE void add_item(int item, int tap, std::uint32_t pack, Pack<float, n> (&totals)[taps]) const {
    const auto& [vertical, horizontal, packs] = pool;
    const int line = item / cut.column_blocks, column = item % cut.column_blocks * depthwise_columns;
    const PackedPool::Place at{line / vertical.output, line % vertical.output, column, pack};
    const int row = at.row * vertical.stride - vertical.before + tap / horizontal.window;
    if (row < 0 || row >= vertical.input) return;
    const int left = column * horizontal.stride - horizontal.before + tap % horizontal.window;
    const DepthwiseRow<T, n> gradients{dy + pool.offset<n>(at, at.row, 0, vertical.output, horizontal.output),
                                       horizontal.output, packs};
    const DepthwiseRow<T, n> pixels{x + pool.offset<n>(at, row, 0, vertical.input, horizontal.input), horizontal.input,
                                    packs};
    Pack<float, n> gradient[depthwise_columns];
    for (int q = 0; q < depthwise_columns; ++q) gradient[q] = gradients.pixel(column + q);
    visit_pixels<n, taps, stride>(pixels, left, horizontal.stride, [&](int q, int j, const Pack<float, n>& pixel) {
      add_product(pixel, gradient[q], totals[j]);
    });
  }

  /// Thread j * lanes * n + c adds the values of channel c of filter column j.
  CARILLON_HOST_DEVICE void sum_groups(const Shared& shared, int item_block, int tap, int first_pack,
                                       int thread) const {
    const int j = thread / (lanes * n), c = thread % (lanes * n);
    const std::int64_t channels = static_cast<std::int64_t>(pool.packs) * n, channel = first_pack * n + c;
    if (j >= taps || channel >= channels) return;
    float sum = 0.0f;
    for (int group = 0; group < groups; ++group) sum += shared.sums[j][c % n][group * lanes + c / n];
    const std::int64_t area = pool.vertical.window * pool.horizontal.window;
    sums[(item_block * area + tap + j) * channels + channel] = sum;
  }
};

/// to[i] = the sum over the blocks b of from[b, i].
struct SumBlocks {
  const float* from;  ///< [blocks, count]
  int blocks;
  std::int64_t count;
  float* to;  ///< [count]

  CARILLON_HOST_DEVICE void operator()(std::int64_t i) const {
    float sum = 0.0f;
    for (int block = 0; block < blocks; ++block) sum += from[block * count + i];
    to[i] = sum;
  }
};

/// Returns the axis of the convolution that computes dx from dy, if the stride is 1.
inline SlidingWindow turned_axis(const SlidingWindow& axis) {
  return {.input = axis.output,
          .output = axis.input,
          .window = axis.window,
          .stride = 1,
          .before = axis.window - 1 - axis.before,
          .after = axis.window - 1 - axis.after};
}

/// Calls body(n, taps, stride), all integral constants, with the fastest combination.
template <typename Body>
void with_depthwise_form(const SlidingWindow& axis, std::int64_t channels, const Body& body) {
  const auto with_stride = [&](auto n, auto taps) {
    if (axis.stride == 1) {
      body(n, taps, std::integral_constant<int, 1>{});
    } else {
      body(n, taps, std::integral_constant<int, 0>{});
    }
  };
  const auto with_taps = [&](auto n) {
    if (axis.window % 7 == 0) return with_stride(n, std::integral_constant<int, 7>{});
    if (axis.window % 3 == 0) return with_stride(n, std::integral_constant<int, 3>{});
    with_stride(n, std::integral_constant<int, 1>{});
  };
  if (channels % 4 == 0) {
    with_taps(std::integral_constant<int, 4>{});
  } else {
    with_taps(std::integral_constant<int, 1>{});
  }
}

}  // namespace carillon
