// The kernels of avg_pool on a GPU. A thread processes a pack of n channels, of an output pixel in forward and of an
// input pixel in backward. Both add in the same order as on a CPU.
#pragma once

#include <cstdint>

#include "kernels/avg_pool/avg_pool.h"
#include "kernels/shared/pack.h"
#include "kernels/shared/packed_pool.h"

namespace carillon {

template <typename T, int n>
struct AvgPoolForward {
  PackedPool pool;
  const T* x;  ///< [batch, height, width, channels]
  T* y;        ///< [batch, output height, output width, channels]
  bool counts_padding = false;

  CARILLON_HOST_DEVICE void operator()(std::int64_t index) const {
    const auto& [vertical, horizontal, packs] = pool;
    const PackedPool::Place at = pool.place(index, vertical.output, horizontal.output);
    const Interval<int> rows = offsets_inside(vertical, at.row), columns = offsets_inside(horizontal, at.column);
    const int top = at.row * vertical.stride - vertical.before;
    const int left = at.column * horizontal.stride - horizontal.before;
    Pack<float, n> sum = {};
    for (int i = rows.first; i < rows.last; ++i) {
      for (int j = columns.first; j < columns.last; ++j) {
        const Pack<float, n> values =
            load_floats<n>(x + pool.offset<n>(at, top + i, left + j, vertical.input, horizontal.input));
        for (int k = 0; k < n; ++k) sum.at[k] += values.at[k];
      }
    }
    const float share = share_of_each(vertical, horizontal, rows, columns, counts_padding);
    for (int k = 0; k < n; ++k) sum.at[k] *= share;
    store_floats(sum, y + index * n);
  }
};

template <typename T, int n>
struct AvgPoolBackward {
  PackedPool pool;
  const T* dy;  ///< [batch, output height, output width, channels]
  T* dx;        ///< [batch, height, width, channels]
  bool counts_padding = false;

  CARILLON_HOST_DEVICE void operator()(std::int64_t index) const {
    const auto& [vertical, horizontal, packs] = pool;
    const PackedPool::Place at = pool.place(index, vertical.input, horizontal.input);
    const Interval<int> ps = windows_over(vertical, at.row), qs = windows_over(horizontal, at.column);
    Pack<float, n> sum = {};  // stays 0 between windows
    for (int p = ps.first; p < ps.last; ++p) {
      for (int q = qs.first; q < qs.last; ++q) {
        const float share = share_of_each(vertical, horizontal, offsets_inside(vertical, p),
                                          offsets_inside(horizontal, q), counts_padding);
        const Pack<float, n> gradient =
            load_floats<n>(dy + pool.offset<n>(at, p, q, vertical.output, horizontal.output));
        for (int k = 0; k < n; ++k) sum.at[k] += share * gradient.at[k];
      }
    }
    store_floats(sum, dx + index * n);
  }
};

}  // namespace carillon
