// The kernels of max_pool on a GPU: a thread takes a pack of n channels, of an output pixel in forward, of an input
// pixel in backward. Backward gathers in the CPU form's order.
#pragma once

#include <cstdint>

#include "kernels/max_pool/max_pool.h"
#include "kernels/shared/pack.h"
#include "kernels/shared/packed_pool.h"

namespace carillon {

/// fixed: the window's extents, 0 for any. With a fixed window its loads are under way together.
template <typename T, int n, int fixed>
struct MaxPoolForward {
  PackedPool pool;
  bool relu;
  const T* x;           ///< [batch, height, width, channels]
  T* y;                 ///< [batch, output height, output width, channels]
  std::uint8_t* where;  ///< [y]: i * window + j of the maximum; null: not wanted

  CARILLON_HOST_DEVICE void operator()(std::int64_t index) const {
    const auto& [vertical, horizontal, packs] = pool;
    const PackedPool::Place at = pool.place(index, vertical.output, horizontal.output);
    Maximum maximum;
    if constexpr (fixed > 0) {
      find_in_fixed(at, maximum);
    } else {
      find(at, maximum);
    }
    Pack<float, n>& largest = maximum.largest;
    for (int k = 0; k < n; ++k) largest.at[k] = relu && largest.at[k] < 0.0f ? 0.0f : largest.at[k];  // NaN stays
    store_floats(largest, y + index * n);
    if (where != nullptr) store(maximum.position, where + index * n);
  }

 private:
  struct Maximum {
    Pack<float, n> largest = {};
    Pack<std::uint8_t, n> position = {};
    bool first = true;

    CARILLON_HOST_DEVICE void take(const Pack<float, n>& values, int here) {
      for (int k = 0; k < n; ++k) {
        const float value = values.at[k];
        if (first || value > largest.at[k] || value != value) {  // NaN wins and stays
          largest.at[k] = value;
          position.at[k] = static_cast<std::uint8_t>(here);
        }
      }
      first = false;
    }
  };

  CARILLON_HOST_DEVICE const T* pixel(const PackedPool::Place& at, int i, int j) const {
    const auto& [vertical, horizontal, packs] = pool;
    const int row = at.row * vertical.stride - vertical.before + i;
    const int column = at.column * horizontal.stride - horizontal.before + j;
    return x + pool.offset<n>(at, row, column, vertical.input, horizontal.input);
  }

  CARILLON_HOST_DEVICE void find(const PackedPool::Place& at, Maximum& maximum) const {
    const Interval<int> rows = offsets_inside(pool.vertical, at.row);
    const Interval<int> columns = offsets_inside(pool.horizontal, at.column);
    for (int i = rows.first; i < rows.last; ++i) {
      for (int j = columns.first; j < columns.last; ++j) {
        maximum.take(load_floats<n>(pixel(at, i, j)), i * pool.horizontal.window + j);
      }
    }
  }

  CARILLON_HOST_DEVICE void find_in_fixed(const PackedPool::Place& at, Maximum& maximum) const {
    const Interval<int> rows = offsets_inside(pool.vertical, at.row);
    const Interval<int> columns = offsets_inside(pool.horizontal, at.column);
    Pack<T, n> loaded[fixed * fixed] = {};
    const auto for_each_inside = [&](const auto& body) {
      for (int i = 0; i < fixed; ++i) {
        for (int j = 0; j < fixed; ++j) {
          if (i >= rows.first && i < rows.last && j >= columns.first && j < columns.last) body(i, j);
        }
      }
    };
    for_each_inside([&](int i, int j) { loaded[i * fixed + j] = load<n>(pixel(at, i, j)); });
    for_each_inside([&](int i, int j) {
      Pack<float, n> values;
      for (int k = 0; k < n; ++k) values.at[k] = to_float(loaded[i * fixed + j].at[k]);
      maximum.take(values, i * fixed + j);
    });
  }
};

/// body(std::integral_constant<int, fixed>): the reference's 3x3 is fixed.
template <typename Body>
void with_fixed_window(const MaxPoolGeometry& geometry, const Body& body) {
  if (geometry.vertical.window == 3 && geometry.horizontal.window == 3) return body(std::integral_constant<int, 3>{});
  if (geometry.vertical.window == 2 && geometry.horizontal.window == 2) return body(std::integral_constant<int, 2>{});
  body(std::integral_constant<int, 0>{});
}

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
