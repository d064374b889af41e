// The kernels of pooling on a GPU. In forward, a thread processes a pack of n channels of an output pixel. In backward,
// a thread processes a pack of n channels of an input pixel. avg_pool adds values, and the backward pass of max_pool
// adds gradients, in the same order as on a CPU.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/pool/pool.h"
#include "kernels/shared/block_kernel.h"
#include "kernels/shared/pack.h"

namespace carillon {

/// fixed: the window's extents, or 0 for any extents. If the window is fixed, the thread issues all loads before it
/// uses the first value.
template <typename T, int n, int fixed>
struct MaxPoolForward {
  PackedPool pool;
  bool relu;
  const float* biases;  ///< [channels]; null: there are no biases
  const T* x;           ///< [batch, height, width, channels]
  T* y;                 ///< [batch, output height, output width, channels]
  std::uint8_t* where;  ///< [y]: i * window + j of the maximum; null: the positions are not computed

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
    if (biases != nullptr) {
      const Pack<float, n> added = load<n>(biases + at.pack * n);
      for (int k = 0; k < n; ++k) largest.at[k] += added.at[k];
    }
    for (int k = 0; k < n; ++k) largest.at[k] = relu && largest.at[k] < 0.0f ? 0.0f : largest.at[k];  // NaN stays NaN
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
        if (first || value > largest.at[k] || value != value) {  // NaN counts as larger than any number and stays the
                                                                 // maximum
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
      CARILLON_UNROLL
      for (int i = 0; i < fixed; ++i) {
        CARILLON_UNROLL
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

/// Calls body(std::integral_constant<int, fixed>). `fixed` is 3 for windows 3x3, 2 for windows 2x2, otherwise 0.
template <typename Body>
void with_fixed_window(const MaxPoolGeometry& geometry, const Body& body) {
  if (geometry.vertical.window == 3 && geometry.horizontal.window == 3) return body(std::integral_constant<int, 3>{});
  if (geometry.vertical.window == 2 && geometry.horizontal.window == 2) return body(std::integral_constant<int, 2>{});
  body(std::integral_constant<int, 0>{});
}

/// over: largest number of windows that contain a pixel, along each axis; the loads of these windows are issued
/// together. 0: any number.
template <typename T, int n, int over>
struct MaxPoolBackward {
  PackedPool pool;
  const T* y;                 ///< [batch, output height, output width, channels]; null if there is no ReLU
  const T* dy;                ///< [y]
  const T* second;            ///< [y]: the gradient of y is dy + second, rounded to T; null: the gradient is dy
  const std::uint8_t* where;  ///< [y]: the positions that MaxPoolForward stored
  T* dx;                      ///< [batch, height, width, channels]

  CARILLON_HOST_DEVICE void operator()(std::int64_t index) const {
    const PackedPool::Place at = pool.place(index, pool.vertical.input, pool.horizontal.input);
    Pack<float, n> sum = {};  // stays 0 if no window contains the pixel
    if constexpr (over > 0) {
      add_few(at, sum);
    } else {
      add_all(at, sum);
    }
    store_floats(sum, dx + index * n);
  }

 private:
  /// The values of one of the windows that contain the pixel.
  struct Window {
    Pack<T, n> gradient = {}, output = {};
    Pack<std::uint8_t, n> position = {};
    std::uint8_t here = 0;  ///< the pixel's position in the window
    bool exists = false;
  };

  CARILLON_HOST_DEVICE Window window(const PackedPool::Place& at, int p, int q) const {
    const auto& [vertical, horizontal, packs] = pool;
    const int i = at.row + vertical.before - p * vertical.stride;
    const int j = at.column + horizontal.before - q * horizontal.stride;
    const std::int64_t place = pool.offset<n>(at, p, q, vertical.output, horizontal.output);
    Window found{.gradient = load<n>(dy + place), .position = load<n>(where + place)};
    if (second != nullptr) {
      const Pack<T, n> more = load<n>(second + place);
      for (int k = 0; k < n; ++k) {
        found.gradient.at[k] = stored_as<T>(to_float(found.gradient.at[k]) + to_float(more.at[k]));
      }
    }
    if (y != nullptr) found.output = load<n>(y + place);
    found.here = static_cast<std::uint8_t>(i * horizontal.window + j);
    found.exists = true;
    return found;
  }

  /// Adds the gradient of one window, in the channels in which the maximum of the window is at the pixel.
  CARILLON_HOST_DEVICE void add(const Window& found, Pack<float, n>& sum) const {
    CARILLON_UNROLL
    for (int k = 0; k < n; ++k) {
      const bool passes = y == nullptr || to_float(found.output.at[k]) > 0.0f;
      sum.at[k] += found.position.at[k] == found.here && passes ? to_float(found.gradient.at[k]) : 0.0f;
    }
  }

  CARILLON_HOST_DEVICE void add_all(const PackedPool::Place& at, Pack<float, n>& sum) const {
    const Interval<int> ps = windows_over(pool.vertical, at.row), qs = windows_over(pool.horizontal, at.column);
    for (int p = ps.first; p < ps.last; ++p) {
      for (int q = qs.first; q < qs.last; ++q) add(window(at, p, q), sum);
    }
  }

  CARILLON_HOST_DEVICE void add_few(const PackedPool::Place& at, Pack<float, n>& sum) const {
    const Interval<int> ps = windows_over(pool.vertical, at.row), qs = windows_over(pool.horizontal, at.column);
    Window found[over * over] = {};
    CARILLON_UNROLL
    for (int p = 0; p < over; ++p) {
      CARILLON_UNROLL
      for (int q = 0; q < over; ++q) {
        if (ps.first + p < ps.last && qs.first + q < qs.last) {
          found[p * over + q] = window(at, ps.first + p, qs.first + q);
        }
      }
    }
    CARILLON_UNROLL
    for (const Window& one : found) {
      if (one.exists) add(one, sum);
    }
  }
};

/// Calls body(std::integral_constant<int, over>). `over` is the largest number of windows that contain a pixel, along
/// each axis. If this number is above 2, `over` is 0. For example, `over` is 1 or 2 for windows of 2x2 and 3x3 with
/// stride 2.
template <typename Body>
void with_windows_over(const MaxPoolGeometry& geometry, const Body& body) {
  const auto over = [](const SlidingWindow& axis) { return (axis.window + axis.stride - 1) / axis.stride; };
  const std::int64_t most = std::max(over(geometry.vertical), over(geometry.horizontal));
  if (most == 1) return body(std::integral_constant<int, 1>{});
  if (most == 2) return body(std::integral_constant<int, 2>{});
  body(std::integral_constant<int, 0>{});
}

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
    Pack<float, n> sum = {};  // stays 0 if no window contains the pixel
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
