// The kernels of scale_channels on a GPU.
//
//   forward    ScaleChannelsRows
//   backward   ColumnSums<ScaleChannelsGradients>, which also writes dx, and CombineColumnSums; if only dx is needed:
//              ScaleChannelsRows
#pragma once

#include <cstdint>

#include "kernels/shared/column_sums.h"
#include "kernels/shared/pack.h"

namespace carillon {

/// Multiplies rows by gamma: to = from gamma. If has_addend is true, to = from gamma + addend.
template <typename T, int n, bool has_addend = false>
struct ScaleChannelsRows {
  PackedRows<n> at;
  const float* gamma = nullptr;  ///< [channels]
  const T* from = nullptr;       ///< [rows, channels]
  T* to = nullptr;               ///< [rows, channels]
  const T* addend = nullptr;     ///< [rows, channels], if has_addend is true

  CARILLON_HOST_DEVICE void operator()(std::int64_t index) const {
    const Pack<float, n> factors = load<n>(gamma + at.column(index));
    struct Row {
      Pack<T, n> from, addend;
    };
    const auto load_row = [&](std::int64_t element) {
      Row row{load<n>(from + element), {}};
      if constexpr (has_addend) row.addend = load<n>(addend + element);
      return row;
    };
    at.for_rows(index, load_row, [&](std::int64_t element, const Row& row) {
      Pack<float, n> values;
      for (int i = 0; i < n; ++i) {
        values.at[i] = to_float(row.from.at[i]) * factors.at[i];
        if constexpr (has_addend) values.at[i] += to_float(row.addend.at[i]);
      }
      store_floats(values, to + element);
    });
  }
};

/// The terms of ColumnSums. Also writes dx. first: sum of dx before dx is rounded to T; second: sum of dy x.
template <typename T, int n>
struct ScaleChannelsGradients {
  const float* gamma = nullptr;         ///< [channels]
  const T *x = nullptr, *dy = nullptr;  ///< [rows, channels]
  T* dx = nullptr;                      ///< [rows, channels]; null: dx is not computed
  std::uint32_t channels = 0;

  struct Fixed {
    Pack<float, n> gamma;
  };
  struct Row {
    Pack<T, n> x, dy;
  };

  CARILLON_HOST_DEVICE Fixed fixed(std::int64_t, std::int64_t column) const { return {load<n>(gamma + column)}; }
  CARILLON_HOST_DEVICE Row row(std::int64_t at) const { return {load<n>(x + at), load<n>(dy + at)}; }
  CARILLON_HOST_DEVICE void store(const Row& row, std::int64_t at) const {
    if (dx == nullptr) return;
    Pack<float, n> products = load<n>(gamma + static_cast<std::uint32_t>(at) % channels);
    for (int i = 0; i < n; ++i) products.at[i] *= to_float(row.dy.at[i]);
    store_to_tensor(pack_of<T>(products), dx + at);
  }
  CARILLON_HOST_DEVICE void add(const Fixed& of, const Row& row, int i, float& first, float& second) const {
    const float dy_of_row = to_float(row.dy.at[i]);
    first += dy_of_row * of.gamma.at[i];
    second += dy_of_row * to_float(row.x.at[i]);
  }
  CARILLON_HOST_DEVICE void finish(std::int64_t, std::int64_t, double&, double&) const {}
};

}  // namespace carillon
