// The kernels of scale_channels on a GPU.
//
//   forward    ScaleChannelsRows
//   backward   ScaleChannelsRows for dx; ColumnSums<ScaleChannelsGradients>, CombineColumnSums
#pragma once

#include <cstdint>

#include "kernels/shared/column_sums.h"
#include "kernels/shared/packed_rows.h"

namespace carillon {

/// to = from gamma.
template <typename T, int n>
struct ScaleChannelsRows {
  PackedRows<n> at;
  const float* gamma = nullptr;  ///< [channels]
  const T* from = nullptr;       ///< [rows, channels]
  T* to = nullptr;               ///< [rows, channels]

  CARILLON_HOST_DEVICE void operator()(std::int64_t index) const {
    const Pack<float, n> factors = load<n>(gamma + at.column(index));
    const auto load_pack = [&](std::int64_t element) { return load<n>(from + element); };
    at.for_rows(index, load_pack, [&](std::int64_t element, const Pack<T, n>& pack) {
      Pack<float, n> values;
      for (int i = 0; i < n; ++i) values.at[i] = to_float(pack.at[i]) * factors.at[i];
      store_floats(values, to + element);
    });
  }
};

/// Terms of ColumnSums. first: 0, second: sum of dy x.
template <typename T, int n>
struct ScaleChannelsGradients {
  const T *x = nullptr, *dy = nullptr;  ///< [rows, columns]

  struct Fixed {};
  struct Row {
    Pack<float, n> x, dy;
  };

  CARILLON_HOST_DEVICE Fixed fixed(std::int64_t, std::int64_t) const { return {}; }
  CARILLON_HOST_DEVICE Row row(std::int64_t at) const { return {load_floats<n>(x + at), load_floats<n>(dy + at)}; }
  CARILLON_HOST_DEVICE void add(const Fixed&, const Row& values, int i, float&, float& second) const {
    second += values.dy.at[i] * values.x.at[i];
  }
  CARILLON_HOST_DEVICE void finish(std::int64_t, std::int64_t, double&, double&) const {}
};

}  // namespace carillon
