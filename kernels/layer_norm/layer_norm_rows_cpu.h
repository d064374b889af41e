// The loops of layer_norm on a CPU over some rows of floats, for functions with CARILLON_SIMD.
//
// Sums over a row have 8 lanes: lane l sums the channels c with c % 8 = l. So the order of a sum depends neither on the
// address of the row nor on the other rows. Vectors have the width of x86-64-v3's registers. Vectors of 16 floats are
// at most 15 % faster with AVX-512, and several times slower without it.
//
// Several rows are processed at once: their sums are independent, and backward adds their terms of dgamma and dbeta
// before it loads and stores the sums. The first pass over rows reads them one after the other, as the hardware's
// prefetcher expects.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/layer_norm/layer_norm_math.h"

namespace carillon::layer_norm_rows {

inline constexpr std::size_t lanes = 8, rows_at_once = 4;

using Vector = float __attribute__((vector_size(lanes * sizeof(float))));
using UnalignedVector = float __attribute__((vector_size(lanes * sizeof(float)), aligned(alignof(float)), may_alias));

/// Which lanes of a vector are channels of the row: all, or the first `count`.
struct AllLanes {};
struct FirstLanes {
  std::size_t count;
};

/// Sets the lanes that are not in the row to `other`.
[[gnu::always_inline]] inline void load(const float* from, AllLanes /*in_row*/, Vector& to, float /*other*/ = 0.0f) {
  to = *reinterpret_cast<const UnalignedVector*>(from);
}
[[gnu::always_inline]] inline void load(const float* from, FirstLanes in_row, Vector& to, float other = 0.0f) {
  float values[lanes];
  for (std::size_t i = 0; i < lanes; ++i) values[i] = i < in_row.count ? from[i] : other;
  load(values, AllLanes{}, to);
}
[[gnu::always_inline]] inline void store(const Vector& from, AllLanes /*in_row*/, float* to) {
  *reinterpret_cast<UnalignedVector*>(to) = from;
}
[[gnu::always_inline]] inline void store(const Vector& from, FirstLanes in_row, float* to) {
  for (std::size_t i = 0; i < in_row.count; ++i) to[i] = from[i];
}

/// Calls body(channel, lanes of the row) for each vector of a row.
template <typename Body>
[[gnu::always_inline]] inline void for_vectors(std::size_t channels, const Body& body) {
  std::size_t c = 0;
  for (; c + lanes <= channels; c += lanes) body(c, AllLanes{});
  if (c < channels) body(c, FirstLanes{channels - c});
}

/// The sum of the lanes.
[[gnu::always_inline]] inline float total(const Vector& sums) {
  Vector all = sums;
  all += __builtin_shufflevector(all, all, 4, 5, 6, 7, 0, 1, 2, 3);
  all += __builtin_shufflevector(all, all, 2, 3, 0, 1, 6, 7, 4, 5);
  all += __builtin_shufflevector(all, all, 1, 0, 3, 2, 5, 4, 7, 6);
  return all[0];
}

template <std::size_t count>
[[gnu::always_inline]] inline void find_norms(const float* x, std::size_t channels, float epsilon,
                                              RowNorm (&norms)[count]) {
  const float size = static_cast<float>(channels);
  Vector sums[count], distances[count] = {}, squares[count] = {};
  float centre[count];
  for (std::size_t k = 0; k < count; ++k) {
    Vector sum = {};
    for_vectors(
        channels, [&](std::size_t c, auto in_row) __attribute__((always_inline)) {
          Vector values;
          load(x + k * channels + c, in_row, values);
          sum += values;
        });
    sums[k] = sum;
  }
  for (std::size_t k = 0; k < count; ++k) centre[k] = total(sums[k]) / size;
  for_vectors(
      channels, [&](std::size_t c, auto in_row) __attribute__((always_inline)) {
        for (std::size_t k = 0; k < count; ++k) {
          Vector distance;
          load(x + k * channels + c, in_row, distance, centre[k]);
          distance -= centre[k];
          distances[k] += distance;
          squares[k] += distance * distance;
        }
      });
  for (std::size_t k = 0; k < count; ++k) {
    norms[k] = row_norm(centre[k], total(distances[k]), total(squares[k]), size, epsilon);
  }
}

/// gamma, beta: [channels]. norms: receives the normalisation of each row; null: not kept.
template <std::size_t count>
[[gnu::always_inline]] inline void forward(const float* __restrict x, std::size_t channels, float epsilon,
                                           const float* __restrict gamma, const float* __restrict beta,
                                           RowNorm* __restrict norms, float* __restrict y) {
  RowNorm of[count];
  find_norms<count>(x, channels, epsilon, of);
  if (norms != nullptr) std::copy_n(of, count, norms);
  for (std::size_t k = 0; k < count; ++k) {
    for_vectors(
        channels, [&](std::size_t c, auto in_row) __attribute__((always_inline)) {
          Vector values, scale, offset;
          load(x + k * channels + c, in_row, values);
          load(gamma + c, in_row, scale);
          load(beta + c, in_row, offset);
          values -= of[k].centre;
          store((values * of[k].inverse + of[k].shift) * scale + offset, in_row, y + k * channels + c);
        });
  }
}

/// Some rows, [rows, channels] each. dx: null if it is not wanted.
struct GradientRows {
  const float *x, *dy;
  float* dx;
};

/// The means over a row of g and of g xhat (layer_norm.h).
[[gnu::always_inline]] inline RowGradient find_gradient(const float* x, const float* dy, std::size_t channels,
                                                        const RowNorm& of, const float* gamma) {
  Vector means = {}, slopes = {};
  for_vectors(
      channels, [&](std::size_t c, auto in_row) __attribute__((always_inline)) {
        Vector values, given, scale;
        load(x + c, in_row, values);
        load(dy + c, in_row, given);
        load(gamma + c, in_row, scale);
        values -= of.centre;
        given *= scale;
        means += given;
        slopes += (values * of.inverse + of.shift) * given;
      });
  const float size = static_cast<float>(channels);
  return {total(means) / size, total(slopes) / size};
}

/// Adds the rows to dgamma and dbeta, and writes dx if `wants_dx`.
template <std::size_t count, bool wants_dx>
[[gnu::always_inline]] inline void backward(const GradientRows& rows, std::size_t channels, const RowNorm* norms,
                                            const float* __restrict gamma, float* __restrict dgamma,
                                            float* __restrict dbeta) {
  RowNorm of[count];
  RowGradient gradients[count];
  std::copy_n(norms, count, of);
  for (std::size_t k = 0; wants_dx && k < count; ++k) {
    gradients[k] = find_gradient(rows.x + k * channels, rows.dy + k * channels, channels, of[k], gamma);
  }
  for_vectors(
      channels, [&](std::size_t c, auto in_row) __attribute__((always_inline)) {
        Vector scale, sum, product;
        load(gamma + c, in_row, scale);
        Vector row_sum = {}, row_product = {};
        for (std::size_t k = 0; k < count; ++k) {
          Vector values, given;
          load(rows.x + k * channels + c, in_row, values);
          load(rows.dy + k * channels + c, in_row, given);
          values -= of[k].centre;
          const Vector hat = values * of[k].inverse + of[k].shift;
          row_sum += given;
          row_product += hat * given;
          if constexpr (wants_dx) {
            store((scale * given - gradients[k].mean - hat * gradients[k].slope) * of[k].inverse, in_row,
                  rows.dx + k * channels + c);
          }
        }
        load(dbeta + c, in_row, sum);
        load(dgamma + c, in_row, product);
        store(sum + row_sum, in_row, dbeta + c);
        store(product + row_product, in_row, dgamma + c);
      });
}

}  // namespace carillon::layer_norm_rows
