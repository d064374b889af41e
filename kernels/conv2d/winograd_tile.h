// The tile of a Winograd convolution F(m, r). This file computes the tile's matrices from points. It also has the
// products of these matrices with vectors, and the positions of the tile's pixels. The transforms of the tile process
// one vector of channels at a time. For *_simd.cpp.
//
// A tile has n = m + r - 1 points: p[0] = 0, then the pairs +-1, +-2, +-1/2, then infinity. f[i] is the product of
// (p[i] - p[k]) over all finite points k != i:
//   A[i][j] = p[i]^j                                                n x m;  at infinity: 1 for j = m - 1, else 0
//   G[i][j] = p[i]^j / f[i]                                         n x r;  at infinity: 1 for j = r - 1, else 0
//   B^T[i]  = coefficients of product over k != i of (x - p[k])     n x n;  at infinity: the product over all finite k
// The rows of two points p and -p differ only in the sign of every other element. Therefore the products of both rows
// share all multiplications.
//
// F(m', r) with m' < m uses the first finite points, and infinity. At these points, its filter transforms are the same
// as in F(m, r), except for factors. These factors can be applied to the inputs instead: B^T[i] is multiplied by (f[i]
// of F(m, r)) / (f[i] of F(m', r)). Sources: A. Lavin, S. Gray, arXiv:1509.09308; S. Winograd, "Arithmetic Complexity
// of Computations", 1980.
#pragma once

#include "kernels/conv2d/winograd_kernels.h"
#include "kernels/shared/simd.h"

namespace carillon::CARILLON_ISA {

/// A matrix of n rows, one per point. The first row is the row of point 0. Then follow `pairs` pairs of rows; the
/// elements of a pair are equal except for signs. Then follow the rows of other points. The last row is the row of
/// infinity.
template <int rows_, int columns_, int pairs_ = (rows_ - 2) / 2>
struct PointMatrix {
  static constexpr int rows = rows_, columns = columns_, pairs = pairs_;
  double at[rows][columns] = {};
};

/// Returns finite point number i. n points include n - 1 finite points.
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

/// Returns powers of the points (A). If `divided` is true, returns the powers divided by f[i] (G).
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

/// Returns B^T for filters that are transformed for `of` points. The rows form pairs only if both points of every pair
/// are used.
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

/// sum += c * x for a compile-time `c`. If `empty` is true, sum = c * x.
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

CARILLON_INLINE std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

/// A tile's position in an array of images.
struct TilePlace {
  std::int64_t row, column;  ///< position of the first pixel; may be before the image
  std::int64_t offset;       ///< offset of that pixel's first channel, in floats

  CARILLON_INLINE TilePlace(const WinogradImages& images, std::int64_t tile, int size)
      : row(tile / images.tiles_across % images.tiles_down * size + images.first_row),
        column(tile % images.tiles_across * size + images.first_column),
        offset(((tile / (images.tiles_across * images.tiles_down) * images.height + row) * images.width + column) *
               images.channels) {}
};

/// Pointers to the pixels of a tile. Outside the image, the pointer is `zeros`.
template <int rows, int columns = rows>
struct TilePixels {
  const float* at[rows][columns];

  CARILLON_INLINE TilePixels(const float* base, const WinogradImages& images, const TilePlace& place,
                             const float* zeros) {
    for (int i = 0; i < rows; ++i) {
      const bool row_inside = place.row + i >= 0 && place.row + i < images.height;
      for (int j = 0; j < columns; ++j) {
        const bool inside = row_inside && place.column + j >= 0 && place.column + j < images.width;
        at[i][j] = inside ? base + place.offset + (i * images.width + j) * images.channels : zeros;
      }
    }
  }
};

/// The rows or columns of a tile, along which the tile computes F(m, r) at points of F(m_filters, r). Therefore F(m, r)
/// and F(m_filters, r) use the same filter transforms.
template <int m_, int r, int m_filters>
struct WinogradExtent {
  static constexpr int m = m_, n = m + r - 1, n_filters = m_filters + r - 1;
  static_assert(n_filters % 2 == 0, "finite points come in pairs after the first, and infinity makes the count even");
  static constexpr auto input_matrix = polynomials<n, n_filters>();
  static constexpr auto output_matrix = powers<n, m>(false);
  /// The points of a tile are the first n - 1 of the n_filters points, and the last one. Returns the index of point i
  /// of the tile in the list of n_filters points.
  static constexpr int point(int i) { return i == n - 1 ? n_filters - 1 : i; }
};

/// F(m, r) on vectors. A tile may have fewer than m rows or columns of outputs. `Frequencies` has the frequencies of
/// the tile.
template <int m, int r, int m_rows = m, int m_columns = m>
struct WinogradTile {
  using Rows = WinogradExtent<m_rows, r, m>;
  using Columns = WinogradExtent<m_columns, r, m>;
  static constexpr int n = m + r - 1;
  static constexpr auto filter_matrix = powers<n, r>(true);

  using Frequencies = Floats[Rows::n][Columns::n];

  /// Returns the index that frequency [i][j] of the tile has among the n^2 frequencies.
  static constexpr int frequency(int i, int j) { return Rows::point(i) * n + Columns::point(j); }

  /// result = rows * values * columns^T; value(Constant<i>, Constant<j>) returns the elements of values.
  template <auto rows, auto columns, typename Vector, typename Value>
  static CARILLON_INLINE void transform(const Value& value, Vector (&result)[rows.rows][columns.rows]) {
    Vector half[rows.rows][columns.columns];
    unroll<columns.columns>([&](auto j) __attribute__((always_inline)) {
      Vector in[rows.columns], out[rows.rows];
      unroll<rows.columns>([&](auto i) __attribute__((always_inline)) { in[i.value] = value(i, j); });
      multiply_by<rows>(in, out);
      unroll<rows.rows>([&](auto i) __attribute__((always_inline)) { half[i.value][j.value] = out[i.value]; });
    });
    unroll<rows.rows>([&](auto i)
                          __attribute__((always_inline)) { multiply_by<columns>(half[i.value], result[i.value]); });
  }

  /// result = rows^T * values * columns; calls take(Constant<i>, row) with one row after the other.
  template <auto rows, auto columns, typename Value, typename Take>
  static CARILLON_INLINE void transform_back(const Value& value, const Take& take) {
    Floats half[rows.columns][columns.rows];
    unroll<columns.rows>([&](auto j) __attribute__((always_inline)) {
      Floats in[rows.rows], out[rows.columns];
      unroll<rows.rows>([&](auto i) __attribute__((always_inline)) { in[i.value] = value(i, j); });
      multiply_by_transposed<rows>(in, out);
      unroll<rows.columns>([&](auto i) __attribute__((always_inline)) { half[i.value][j.value] = out[i.value]; });
    });
    unroll<rows.columns>([&](auto i) __attribute__((always_inline)) {
      Floats out[columns.columns];
      multiply_by_transposed<columns>(half[i.value], out);
      take(i, out);
    });
  }

  /// Computes B^T d B at channel c of the pixels.
  static CARILLON_INLINE void transform_input(const TilePixels<Rows::n, Columns::n>& pixels, std::int64_t c,
                                              std::int64_t channels, Frequencies& result) {
    const auto value = [&](auto i, auto j) __attribute__((always_inline)) {
      return load_within(pixels.at[i.value][j.value], c, channels);
    };
    transform<Rows::input_matrix, Columns::input_matrix>(value, result);
  }
  /// Computes A dy A^T at filter o of the pixels.
  static CARILLON_INLINE void transform_gradient(const TilePixels<Rows::m, Columns::m>& pixels, std::int64_t o,
                                                 std::int64_t filters, Frequencies& result) {
    const auto value = [&](auto i, auto j) __attribute__((always_inline)) {
      return load_within(pixels.at[i.value][j.value], o, filters);
    };
    transform<Rows::output_matrix, Columns::output_matrix>(value, result);
  }

  /// Computes y = A^T M A + bias at filter o of the tile's pixels inside the image. If `relu` is true, then applies a
  /// ReLU. value(i, j) returns an element of M.
  template <typename Value>
  static CARILLON_INLINE void store_output(const Value& value, const WinogradImages& images, const TilePlace& place,
                                           std::int64_t o, Floats bias, bool with_relu, float* y) {
    float* const corner = y + place.offset;
    const std::int64_t rows = images.height - place.row, columns = images.width - place.column;
    transform_back<Rows::output_matrix, Columns::output_matrix>(
        value, [&](auto i, const Floats* out) __attribute__((always_inline)) {
          if (i.value >= rows) return;
          unroll<Columns::m>([&](auto j) __attribute__((always_inline)) {
            if (j.value >= columns) return;
            const Floats z = out[j.value] + bias;
            store_within(corner + (i.value * images.width + j.value) * images.channels, o, images.channels,
                         with_relu ? relu(z) : z);
          });
        });
  }
};

CARILLON_INLINE Floats bias_of(const float* bias, std::int64_t o, std::int64_t filters) {
  return bias != nullptr ? load_within(bias, o, filters) : Floats{};
}

}  // namespace carillon::CARILLON_ISA
