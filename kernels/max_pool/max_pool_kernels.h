// The kernels of max_pool on a GPU: a thread takes a pack of n channels, of an output pixel in forward, of an input
// pixel in backward. Backward gathers in the CPU form's order.
#pragma once

#include <cstdint>

#include "kernels/max_pool/max_pool.h"
#include "kernels/shared/pack.h"
#include "kernels/shared/packed_pool.h"

namespace carillon {

template <typename T, int n>
struct MaxPoolForward {
  PackedPool pool;
  bool relu;
  const T* x;           ///< [batch, height, width, channels]
  T* y;                 ///< [batch, output height, output width, channels]
  std::uint8_t* where;  ///< [y]: i * window + j of the maximum; null: not wanted

  CARILLON_HOST_DEVICE void operator()(std::int64_t index) const {
    const auto& [vertical, horizontal, packs] = pool;
    const PackedPool::Place at = pool.place(index, vertical.output, horizontal.output);
    const Interval<int> rows = offsets_inside(vertical, at.row), columns = offsets_inside(horizontal, at.column);
    const int top = at.row * vertical.stride - vertical.before;
    const int left = at.column * horizontal.stride - horizontal.before;
    Pack<float, n> largest = {};
    Pack<std::uint8_t, n> position = {};
    bool first = true;
    for (int i = rows.first; i < rows.last; ++i) {
      for (int j = columns.first; j < columns.last; ++j, first = false) {
        const T* const pixel = x + pool.offset<n>(at, top + i, left + j, vertical.input, horizontal.input);
        take_larger(load_floats<n>(pixel), static_cast<std::uint8_t>(i * horizontal.window + j), first, largest,
                    position);
      }
    }
    for (int k = 0; k < n; ++k) largest.at[k] = relu && largest.at[k] < 0.0f ? 0.0f : largest.at[k];  // NaN stays
    store_floats(largest, y + index * n);
    if (where != nullptr) store(position, where + index * n);
  }

 private:
  CARILLON_HOST_DEVICE static void take_larger(const Pack<float, n>& values, std::uint8_t here, bool first,
                                               Pack<float, n>& largest, Pack<std::uint8_t, n>& position) {
    for (int k = 0; k < n; ++k) {
      const float value = values.at[k];
      if (first || value > largest.at[k] || value != value) {  // NaN wins and stays
        largest.at[k] = value;
        position.at[k] = here;
      }
    }
  }
};

template <typename T, int n>
struct MaxPoolBackward {
  PackedPool pool;
  const T* y;                 ///< [batch, output height, output width, channels] with a ReLU, else null
  const T* dy;                ///< [y]
  const std::uint8_t* where;  ///< [y], of MaxPoolForward
  T* dx;                      ///< [batch, height, width, channels]

  CARILLON_HOST_DEVICE void operator()(std::int64_t index) const {
    const auto& [vertical, horizontal, packs] = pool;
    const PackedPool::Place at = pool.place(index, vertical.input, horizontal.input);
    const Interval<int> ps = windows_over(vertical, at.row), qs = windows_over(horizontal, at.column);
    Pack<float, n> sum = {};  // stays 0 between windows
    for (int p = ps.first; p < ps.last; ++p) {
      const int i = at.row + vertical.before - p * vertical.stride;
      for (int q = qs.first; q < qs.last; ++q) {
        const int j = at.column + horizontal.before - q * horizontal.stride;
        add_window(pool.offset<n>(at, p, q, vertical.output, horizontal.output),
                   static_cast<std::uint8_t>(i * horizontal.window + j), sum);
      }
    }
    store_floats(sum, dx + index * n);
  }

 private:
  /// Adds the gradients at `output` whose maximum was at offset `here`.
  CARILLON_HOST_DEVICE void add_window(std::int64_t output, std::uint8_t here, Pack<float, n>& sum) const {
    const Pack<std::uint8_t, n> position = load<n>(where + output);
    const Pack<float, n> gradient = load_floats<n>(dy + output);
    Pack<float, n> passed = gradient;
    if (y != nullptr) {
      const Pack<float, n> value = load_floats<n>(y + output);
      for (int k = 0; k < n; ++k) passed.at[k] = value.at[k] > 0.0f ? gradient.at[k] : 0.0f;
    }
    for (int k = 0; k < n; ++k) sum.at[k] += position.at[k] == here ? passed.at[k] : 0.0f;
  }
};

}  // namespace carillon
