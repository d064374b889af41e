// The kernels of batch_norm on a GPU.
//
//   forward    ColumnSums<BatchMoments, CombineMoments>, NormaliseRows
//              in evaluation, or if it is frozen: MovingNorm, NormaliseRows
//   backward   ColumnSums<BatchGradients, CombineGradients>, BatchNormGradient
//              with an addend and a ReLU: ColumnSums<SumGradients, CombineGradients> writes dz, and BatchNormGradient
//              reads it
//   all ranks  the ranks exchange the results of CombineMoments and CombineGradients; then NormOfRanks and
//              GradientsOfRanks
#pragma once

#include <cstdint>

#include "kernels/batch_norm/batch_norm_math.h"
#include "kernels/elementwise/functions.h"
#include "kernels/shared/column_sums.h"

namespace carillon {

/// Lanes of ColumnCut: 64 bytes of a row, so that the last blocks read at most 132 parts (64 channels in bf16).
inline constexpr int batch_norm_lanes = 4;

/// ChannelNorm and ChannelGradient, [columns] each.
struct ChannelNorms {
  float *centre = nullptr, *scale = nullptr, *offset = nullptr;
};
struct ChannelGradients {
  float *direct = nullptr, *slope = nullptr, *constant = nullptr;

  CARILLON_HOST_DEVICE void set(std::int64_t c, const ChannelGradient& of) const {
    direct[c] = of.direct;
    slope[c] = of.slope;
    constant[c] = of.constant;
  }
};

/// The moments of a block's rows, summed about the first row of the block. first: mean; second: sum of squared
/// distances from the mean.
template <typename T, int n>
struct BatchMoments {
  const T* x = nullptr;  ///< [rows, columns]

  using Fixed = Pack<float, n>;
  using Row = Pack<T, n>;

  CARILLON_HOST_DEVICE Fixed fixed(std::int64_t first_row_at, std::int64_t) const {
    return load_floats<n>(x + first_row_at);
  }
  CARILLON_HOST_DEVICE Row row(std::int64_t at) const { return load<n>(x + at); }
  CARILLON_HOST_DEVICE void add(const Fixed& shift, const Row& values, int i, float& first, float& second) const {
    const float distance = to_float(values.at[i]) - shift.at[i];
    first += distance;
    second += distance * distance;
  }
  CARILLON_HOST_DEVICE void finish(std::int64_t first_row_at, std::int64_t rows, double& first, double& second) const {
    const Moments moments = moments_about(to_float(x[first_row_at]), static_cast<double>(rows), first, second);
    first = moments.mean;
    second = moments.squares;
  }
};

/// The terms of ColumnSums in backward. first: sum of dz, second: sum of dz (x - centre).
template <typename T, int n, typename Activation>
struct BatchGradients {
  const T *x = nullptr, *dy = nullptr;  ///< [rows, columns]
  ChannelNorms norm;

  struct Fixed {
    Pack<float, n> centre, scale, offset;
  };
  struct Row {
    Pack<T, n> x, dy;
  };

  CARILLON_HOST_DEVICE Fixed fixed(std::int64_t, std::int64_t column) const {
    return {load<n>(norm.centre + column), load<n>(norm.scale + column), load<n>(norm.offset + column)};
  }
  CARILLON_HOST_DEVICE Row row(std::int64_t at) const { return {load<n>(x + at), load<n>(dy + at)}; }
  CARILLON_HOST_DEVICE void add(const Fixed& of, const Row& values, int i, float& first, float& second) const {
    const float distance = to_float(values.x.at[i]) - of.centre.at[i];
    const float dz =
        Activation::gradient(norm_at(distance, of.scale.at[i], of.offset.at[i]), to_float(values.dy.at[i]));
    first += dz;
    second += dz * distance;
  }
  CARILLON_HOST_DEVICE void finish(std::int64_t, std::int64_t, double&, double&) const {}
};

/// Bit i is set if y[i] > 0, i.e. if the gradient of a ReLU passes at element i. Backward reads this byte per pack
/// instead of y.
template <typename T, int n>
CARILLON_HOST_DEVICE inline std::uint8_t positive_bits(const Pack<T, n>& y) {
  unsigned bits = 0;
  for (int i = 0; i < n; ++i) bits |= (to_float(y.at[i]) > 0.0f ? 1u : 0u) << i;
  return static_cast<std::uint8_t>(bits);
}

/// As BatchGradients, for y = max(z + addend, 0). Replaces dy by dz. If has_second, the gradient of y is dy + second,
/// rounded to T.
template <typename T, int n, bool has_second>
struct SumGradients {
  const T* x = nullptr;                    ///< [rows, columns]
  const std::uint8_t* positive = nullptr;  ///< [rows, columns / n]: positive_bits of y
  T* dy = nullptr;                         ///< [rows, columns]
  const T* second = nullptr;               ///< [rows, columns], with has_second
  ChannelNorms norm;

  using Fixed = Pack<float, n>;
  struct Row {
    Pack<T, n> x, dy, second;
    unsigned positive;
  };

  CARILLON_HOST_DEVICE Fixed fixed(std::int64_t, std::int64_t column) const { return load<n>(norm.centre + column); }
  CARILLON_HOST_DEVICE Row row(std::int64_t at) const {
    Row row{load<n>(x + at), load<n>(dy + at), {}, positive[at / n]};
    if constexpr (has_second) row.second = load<n>(second + at);
    return row;
  }
  CARILLON_HOST_DEVICE void store(const Row& row, std::int64_t at) const {
    Pack<T, n> dz;
    for (int i = 0; i < n; ++i) dz.at[i] = dz_of(row, i);
    store_to_tensor(dz, dy + at);
  }
  CARILLON_HOST_DEVICE void add(const Fixed& centre, const Row& row, int i, float& first, float& second_sum) const {
    const float dz = to_float(dz_of(row, i));
    first += dz;
    second_sum += dz * (to_float(row.x.at[i]) - centre.at[i]);
  }
  CARILLON_HOST_DEVICE void finish(std::int64_t, std::int64_t, double&, double&) const {}

 private:
  CARILLON_HOST_DEVICE static T dz_of(const Row& row, int i) {
    float gradient = to_float(row.dy.at[i]);
    if constexpr (has_second) gradient += to_float(row.second.at[i]);
    return stored_as<T>((row.positive >> i & 1u) != 0 ? gradient : 0.0f);
  }
};

}  // namespace carillon
