// The matrices of Winograd's convolution F(m, r), computed from points, and their products with vectors. For
// *_simd.cpp.
//
// n = m + r - 1; the points are p[0] = 0, then the pairs +-1, +-2, +-1/2, then infinity; f[i] = product over k != i of
// (p[i] - p[k]) over the finite points:
//   A[i][j] = p[i]^j                                                         n x m;  at infinity only j = m - 1, 1
//   G[i][j] = p[i]^j / f[i]                                                  n x r;  at infinity only j = r - 1, 1
//   B^T[i]  = coefficients of product over k != i of (x - p[k])              n x n;  at infinity of all of them
// Rows of a pair +-p differ in the sign of every other element, so their products share all multiplications.
//
// F(m', r) with m' < m uses the first of the points and infinity. At these points, its filter transforms equal the
// filter transforms of F(m, r), except for factors that can be applied to the inputs: B^T[i] times f[i] of F(m, r) /
// f[i] of F(m', r). Sources: A. Lavin, S. Gray, arXiv:1509.09308; S. Winograd, "Arithmetic Complexity of Computations",
// 1980.
#pragma once

#include "kernels/shared/simd.h"

namespace carillon::CARILLON_ISA {

/// A matrix of n rows, one per point: first 0, then `pairs` with equal elements except for signs, then others, infinity
/// last.
template <int rows_, int columns_, int pairs_ = (rows_ - 2) / 2>
struct PointMatrix {
  static constexpr int rows = rows_, columns = columns_, pairs = pairs_;
  double at[rows][columns] = {};
};

/// The n - 1 finite points.
constexpr double winograd_point(int i) {
  if (i == 0) return 0.0;
  const int pair = (i - 1) / 2;  // 1, 2, 1/2, 4, 1/4, ...
  double point = 1.0;
  for (int k = 0; k < (pair + 1) / 2; ++k) point *= 2.0;
  if (pair > 0 && pair % 2 == 0) point = 1.0 / point;
  return i % 2 == 1 ? point : -point;
}

constexpr double winograd_factor(int n, int i) {
  double factor = 1.0;
  for (int k = 0; k < n - 1; ++k) {
    if (k != i) factor *= winograd_point(i) - winograd_point(k);
  }
  return factor;
}

/// Powers of the points (A), optionally divided by their factors (G).
template <int n, int columns>
constexpr PointMatrix<n, columns> powers(bool divided) {
  PointMatrix<n, columns> result;
  for (int i = 0; i < n - 1; ++i) {
    double power = divided ? 1.0 / winograd_factor(n, i) : 1.0;
    for (int j = 0; j < columns; ++j) {
      result.at[i][j] = power;
      power *= winograd_point(i);
    }
  }
  result.at[n - 1][columns - 1] = 1.0;
  return result;
}

/// B^T for filters that are transformed for `of` points. Only if both points of a pair are used, their polynomials form
/// a pair.
template <int n, int of = n>
constexpr auto polynomials() {
  PointMatrix<n, n, n % 2 == 0 ? (n - 2) / 2 : 0> result;
  for (int i = 0; i < n; ++i) {
    result.at[i][0] = 1.0;
    int degree = 0;
    for (int k = 0; k < n - 1; ++k) {
      if (k == i) continue;
      ++degree;
      for (int j = degree; j >= 0; --j) {  // times (x - p[k])
        result.at[i][j] = (j > 0 ? result.at[i][j - 1] : 0.0) - winograd_point(k) * result.at[i][j];
      }
    }
    if (n == of || i == n - 1) continue;
    for (int j = 0; j < n; ++j) result.at[i][j] *= winograd_factor(of, i) / winograd_factor(n, i);
  }
  return result;
}

/// sum += c * x for a compile-time `c`; sum = c * x if `empty`.
template <auto matrix, int row, int column, typename Vector>
CARILLON_INLINE void add_term(Vector x, bool& empty, Vector& sum) {
  constexpr double c = matrix.at[row][column];
  if constexpr (c == 1.0) {
    sum = empty ? x : sum + x;
  } else if constexpr (c == -1.0) {
    sum = empty ? -x : sum - x;
  } else if constexpr (c != 0.0) {
    sum = empty ? broadcast_as<Vector>(static_cast<float>(c)) * x
                : fma(broadcast_as<Vector>(static_cast<float>(c)), x, sum);
  }
  if constexpr (c != 0.0) empty = false;
}

/// out[i] = sum over j of matrix[i][j] * in[j].
template <auto matrix, typename Vector>
CARILLON_INLINE void multiply_by(const Vector* in, Vector* out) {
  constexpr int n = matrix.rows, columns = matrix.columns, alone = 1 + 2 * matrix.pairs;
  const auto row_sum = [&](auto row, auto first, auto step) __attribute__((always_inline)) {
    Vector sum{};
    bool empty = true;
    unroll<columns>([&](auto j) __attribute__((always_inline)) {
      if constexpr (j.value % step.value == first.value) add_term<matrix, row.value, j.value>(in[j.value], empty, sum);
    });
    return sum;
  };
  out[0] = row_sum(Constant<0>{}, Constant<0>{}, Constant<1>{});
  unroll<matrix.pairs>([&](auto pair) __attribute__((always_inline)) {
    constexpr int plus = 1 + 2 * pair.value;
    const Vector even = row_sum(Constant<plus>{}, Constant<0>{}, Constant<2>{});
    const Vector odd = row_sum(Constant<plus>{}, Constant<1>{}, Constant<2>{});
    out[plus] = even + odd;
    out[plus + 1] = even - odd;
  });
  unroll<n - alone>([&](auto i) __attribute__((always_inline)) {
    out[alone + i.value] = row_sum(Constant<alone + i.value>{}, Constant<0>{}, Constant<1>{});
  });
}

/// out[j] = sum over i of matrix[i][j] * in[i].
template <auto matrix, typename Vector>
CARILLON_INLINE void multiply_by_transposed(const Vector* in, Vector* out) {
  constexpr int n = matrix.rows, columns = matrix.columns, pairs = matrix.pairs, alone = 1 + 2 * pairs;
  Vector sums[pairs], differences[pairs];
  unroll<pairs>([&](auto pair) __attribute__((always_inline)) {
    constexpr int plus = 1 + 2 * pair.value;
    sums[pair.value] = in[plus] + in[plus + 1];
    differences[pair.value] = in[plus] - in[plus + 1];
  });
  unroll<columns>([&](auto j) __attribute__((always_inline)) {
    Vector sum{};
    bool empty = true;
    add_term<matrix, 0, j.value>(in[0], empty, sum);
    unroll<pairs>([&](auto pair) __attribute__((always_inline)) {
      const Vector both = j.value % 2 == 0 ? sums[pair.value] : differences[pair.value];
      add_term<matrix, 1 + 2 * pair.value, j.value>(both, empty, sum);
    });
    unroll<n - alone>([&](auto i) __attribute__((always_inline)) {
      add_term<matrix, alone + i.value, j.value>(in[alone + i.value], empty, sum);
    });
    out[j.value] = sum;
  });
}

}  // namespace carillon::CARILLON_ISA
