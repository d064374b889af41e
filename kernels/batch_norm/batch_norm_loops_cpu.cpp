#include "kernels/batch_norm/batch_norm_loops_cpu.h"

#include <algorithm>
#include <type_traits>

#include "carillon/core/parallel.h"
#include "kernels/batch_norm/batch_norm_math.h"
#include "kernels/elementwise/functions.h"

namespace carillon::batch_norm_loops {
namespace {

/// Number of rows that are added in a register before the register is added to the sums in memory.
constexpr std::size_t rows_at_once = 4;

/// Adds `count` terms.
template <std::size_t count>
[[gnu::always_inline]] inline float sum_of(const float (&terms)[count]) {
  if constexpr (count == rows_at_once) return (terms[0] + terms[1]) + (terms[2] + terms[3]);
  return terms[0];
}

/// Sets both arrays of `sums` to the sums over all rows. add_rows(integral constant count, row) adds `count` rows, from
/// number `row` on, to both arrays.
template <typename AddRows>
[[gnu::always_inline]] inline void add_all_rows(std::size_t rows, std::size_t width, const BlockSums& sums,
                                                const AddRows& add_rows) {
  std::fill_n(sums.first, width, 0.0f);
  std::fill_n(sums.second, width, 0.0f);
  std::size_t row = 0;
  for (; row + rows_at_once <= rows; row += rows_at_once) {
    add_rows(std::integral_constant<std::size_t, rows_at_once>{}, row);
  }
  for (; row < rows; ++row) add_rows(std::integral_constant<std::size_t, 1>{}, row);
}

template <std::size_t count, typename T>
[[gnu::always_inline]] inline void add_distances(const T* __restrict x, const T* __restrict from, std::size_t width,
                                                 float* __restrict first, float* __restrict second) {
  for (std::size_t c = 0; c < width; ++c) {
    float distance[count], square[count];
    for (std::size_t k = 0; k < count; ++k) {
      distance[k] = to_float(x[k * width + c]) - to_float(from[c]);
      square[k] = distance[k] * distance[k];
    }
    first[c] += sum_of(distance);
    second[c] += sum_of(square);
  }
}

/// All loads are before the conditions, because the compiler does not vectorise conditional loads.
template <std::size_t count, typename Activation, typename T>
[[gnu::always_inline]] inline void add_gradients(const T* __restrict x, const T* __restrict dy,
                                                 const float* __restrict centre, const float* __restrict scale,
                                                 const float* __restrict offset, std::size_t width,
                                                 float* __restrict first, float* __restrict second) {
  for (std::size_t c = 0; c < width; ++c) {
    float given[count], dz[count], product[count];
    for (std::size_t k = 0; k < count; ++k) given[k] = to_float(dy[k * width + c]);
    for (std::size_t k = 0; k < count; ++k) {
      const float distance = to_float(x[k * width + c]) - centre[c];
      dz[k] = Activation::gradient(norm_at(distance, scale[c], offset[c]), given[k]);
      product[k] = dz[k] * distance;
    }
    first[c] += sum_of(dz);
    second[c] += sum_of(product);
  }
}

template <typename Activation, typename T>
[[gnu::always_inline]] inline void sum_gradients_as(const T* x, const T* dy, const NormRows& norm, std::size_t rows,
                                                    std::size_t width, const BlockSums& sums) {
  add_all_rows(rows, width, sums, [&]<std::size_t count>(std::integral_constant<std::size_t, count>, std::size_t row) {
    add_gradients<count, Activation>(x + row * width, dy + row * width, norm.centre, norm.scale, norm.offset, width,
                                     sums.first, sums.second);
  });
}

/// Writes dz to dy.
template <typename Activation, typename T>
[[gnu::always_inline]] inline void pass_activation(const T* __restrict x, T* __restrict dy, const NormRows& norm,
                                                   std::size_t rows, std::size_t width) {
  const float* __restrict centre = norm.centre, * __restrict scale = norm.scale, * __restrict offset = norm.offset;
  for (std::size_t row = 0; row < rows; ++row, x += width, dy += width) {
    for (std::size_t c = 0; c < width; ++c) {
      const float given = to_float(dy[c]);
      dy[c] = stored_as<T>(Activation::gradient(norm_at(to_float(x[c]) - centre[c], scale[c], offset[c]), given));
    }
  }
}

template <typename Activation, typename T>
[[gnu::always_inline]] inline void normalise_as(const T* __restrict x, const NormRows& norm, std::size_t rows,
                                                std::size_t width, T* __restrict y) {
  const float* __restrict centre = norm.centre, * __restrict scale = norm.scale, * __restrict offset = norm.offset;
  for (std::size_t row = 0; row < rows; ++row, x += width, y += width) {
    for (std::size_t c = 0; c < width; ++c) {
      y[c] = stored_as<T>(Activation::value(norm_at(to_float(x[c]) - centre[c], scale[c], offset[c])));
    }
  }
}

template <typename Activation, typename T>
[[gnu::always_inline]] inline void normalise_and_add_as(const T* __restrict x, const T* __restrict addend,
                                                        const NormRows& norm, std::size_t rows, std::size_t width,
                                                        T* __restrict y) {
  const float* __restrict centre = norm.centre, * __restrict scale = norm.scale, * __restrict offset = norm.offset;
  for (std::size_t row = 0; row < rows; ++row, x += width, addend += width, y += width) {
    for (std::size_t c = 0; c < width; ++c) {
      const float z = norm_at(to_float(x[c]) - centre[c], scale[c], offset[c]);
      y[c] = stored_as<T>(Activation::value(z + to_float(addend[c])));
    }
  }
}

template <typename T>
[[gnu::always_inline]] inline void relu_backward(const T* __restrict y, std::size_t count, T* __restrict dy) {
  for (std::size_t i = 0; i < count; ++i) dy[i] = stored_as<T>(Relu::gradient(to_float(y[i]), to_float(dy[i])));
}

/// dy may be dx, because the compiler's check for aliases permits equal addresses.
template <typename Activation, typename T>
[[gnu::always_inline]] inline void find_gradients_as(const T* __restrict x, const T* dy, const NormRows& norm,
                                                     const GradientRows& gradient, std::size_t rows, std::size_t width,
                                                     T* dx) {
  const float* __restrict centre = norm.centre, * __restrict scale = norm.scale, * __restrict offset = norm.offset;
  const float *__restrict direct = gradient.direct, *__restrict slope = gradient.slope,
                         *__restrict constant = gradient.constant;
  for (std::size_t row = 0; row < rows; ++row, x += width, dy += width, dx += width) {
    for (std::size_t c = 0; c < width; ++c) {
      const float distance = to_float(x[c]) - centre[c], given = to_float(dy[c]);
      const float dz = Activation::gradient(norm_at(distance, scale[c], offset[c]), given);
      dx[c] = stored_as<T>(gradient_at(dz, distance, direct[c], slope[c], constant[c]));
    }
  }
}

/// Calls body(element type, activation) with the C++ types for `type` and `activation`.
template <typename Body>
[[gnu::always_inline]] inline void with_types(DType type, ActivationKind activation, const Body& body) {
  with_float_type(
      type, [&]<typename T>(std::type_identity<T> element) __attribute__((always_inline)) {
        with_activation<T>(
            activation, [&]<typename A>(A kind) __attribute__((always_inline)) { body(element, kind); });
      });
}

template <typename T>
[[gnu::always_inline]] inline void sum_distances_of(const T* x, std::size_t rows, std::size_t width,
                                                    const BlockSums& sums) {
  add_all_rows(rows, width, sums, [&]<std::size_t count>(std::integral_constant<std::size_t, count>, std::size_t row) {
    add_distances<count>(x + row * width, x, width, sums.first, sums.second);
  });
}

template <typename T>
[[gnu::always_inline]] inline void merge_moments_about(const T* __restrict first_row, const BlockSums& sums,
                                                       std::size_t rows_before, std::size_t rows, std::size_t width,
                                                       double* __restrict mean, double* __restrict squares) {
  const float* __restrict first = sums.first, * __restrict second = sums.second;
  const double before = static_cast<double>(rows_before), count = static_cast<double>(rows), one = 1.0 / count;
  const double share = count / (before + count), weight = before * share;
  for (std::size_t c = 0; c < width; ++c) {
    const double sum = first[c], own = second[c] - sum * sum * one;
    const double distance = to_float(first_row[c]) + sum * one - mean[c];
    mean[c] += distance * share;
    squares[c] += (own < 0.0 ? 0.0 : own) + distance * distance * weight;
  }
}

}  // namespace

CARILLON_SIMD void sum_distances(ElementPointer x, std::size_t rows, std::size_t width, const BlockSums& sums) {
  with_float_type(
      x.type(), [&]<typename T>(std::type_identity<T>)
                    __attribute__((always_inline)) { sum_distances_of(x.as<T>(), rows, width, sums); });
}

CARILLON_SIMD void merge_moments(ElementPointer first_row, const BlockSums& sums, std::size_t rows_before,
                                 std::size_t rows, std::size_t width, double* mean, double* squares) {
  with_float_type(
      first_row.type(), [&]<typename T>(std::type_identity<T>) __attribute__((always_inline)) {
        merge_moments_about(first_row.as<T>(), sums, rows_before, rows, width, mean, squares);
      });
}

CARILLON_SIMD void sum_gradients(ElementPointer x, ElementPointer dy, const NormRows& norm, ActivationKind activation,
                                 std::size_t rows, std::size_t width, const BlockSums& sums) {
  with_types(
      x.type(), activation, [&]<typename T, typename A>(std::type_identity<T>, A) __attribute__((always_inline)) {
        if constexpr (A::is_expensive) {
          pass_activation<A>(x.as<T>(), dy.as<T>(), norm, rows, width);
          sum_gradients_as<Identity>(x.as<T>(), dy.as<T>(), norm, rows, width, sums);  // reads from the L1 cache
        } else {
          sum_gradients_as<A>(x.as<T>(), dy.as<T>(), norm, rows, width, sums);
        }
      });
}

CARILLON_SIMD void add_sums(const BlockSums& sums, std::size_t width, double* __restrict first,
                            double* __restrict second) {
  const float* __restrict a = sums.first, * __restrict b = sums.second;
  for (std::size_t c = 0; c < width; ++c) first[c] += a[c];
  for (std::size_t c = 0; c < width; ++c) second[c] += b[c];
}

CARILLON_SIMD void normalise(ElementPointer x, const NormRows& norm, ActivationKind activation, std::size_t rows,
                             std::size_t width, ElementPointer y) {
  with_types(
      x.type(), activation, [&]<typename T, typename A>(std::type_identity<T>, A) __attribute__((always_inline)) {
        normalise_as<A>(x.as<T>(), norm, rows, width, y.as<T>());
      });
}

CARILLON_SIMD void normalise_and_add(ElementPointer x, ElementPointer addend, const NormRows& norm,
                                     ActivationKind activation, std::size_t rows, std::size_t width, ElementPointer y) {
  with_float_type(
      x.type(), [&]<typename T>(std::type_identity<T>) __attribute__((always_inline)) {
        if (activation == ActivationKind::relu) {
          normalise_and_add_as<Relu>(x.as<T>(), addend.as<T>(), norm, rows, width, y.as<T>());
        } else {
          normalise_and_add_as<Identity>(x.as<T>(), addend.as<T>(), norm, rows, width, y.as<T>());
        }
      });
}

CARILLON_SIMD void replace_dy_by_dz(ElementPointer y, ActivationKind activation, std::size_t count, ElementPointer dy) {
  if (activation != ActivationKind::relu) return;
  with_float_type(
      dy.type(), [&]<typename T>(std::type_identity<T>)
                     __attribute__((always_inline)) { relu_backward(y.as<T>(), count, dy.as<T>()); });
}

CARILLON_SIMD void find_gradients(ElementPointer x, ElementPointer dy, const NormRows& norm,
                                  const GradientRows& gradient, ActivationKind activation, std::size_t rows,
                                  std::size_t width, ElementPointer dx) {
  with_float_type(
      x.type(), [&]<typename T>(std::type_identity<T>) __attribute__((always_inline)) {
        if (activation == ActivationKind::relu) {
          find_gradients_as<Relu>(x.as<T>(), dy.as<T>(), norm, gradient, rows, width, dx.as<T>());
        } else {  // dy holds dz, except if there is no activation
          find_gradients_as<Identity>(x.as<T>(), dy.as<T>(), norm, gradient, rows, width, dx.as<T>());
        }
      });
}

}  // namespace carillon::batch_norm_loops
