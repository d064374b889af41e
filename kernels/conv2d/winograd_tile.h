// The common part of Winograd's convolutions: the positions of a tile's pixels, and the tile's transforms, one vector
// of channels at a time. For *_simd.cpp.
#pragma once

#include "kernels/conv2d/winograd_kernels.h"
#include "kernels/conv2d/winograd_transforms.h"
#include "kernels/shared/simd.h"

namespace carillon::CARILLON_ISA {

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

/// Pointers to the pixels of a tile; `zeros` outside the image.
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

/// A tile's rows or columns: F(m, r) at points of F(m_filters, r), so that both use the same filter transforms.
template <int m_, int r, int m_filters>
struct WinogradExtent {
  static constexpr int m = m_, n = m + r - 1, n_filters = m_filters + r - 1;
  static_assert(n_filters % 2 == 0, "finite points come in pairs after the first, and infinity makes the count even");
  static constexpr auto input_matrix = polynomials<n, n_filters>();
  static constexpr auto output_matrix = powers<n, m>(false);
  /// The number of point i among n_filters points.
  static constexpr int point(int i) { return i == n - 1 ? n_filters - 1 : i; }
};

/// F(m, r) on vectors. A tile may have fewer rows or columns; `Frequencies` has the frequencies of the tile.
template <int m, int r, int m_rows = m, int m_columns = m>
struct WinogradTile {
  using Rows = WinogradExtent<m_rows, r, m>;
  using Columns = WinogradExtent<m_columns, r, m>;
  static constexpr int n = m + r - 1;
  static constexpr auto filter_matrix = powers<n, r>(true);

  using Frequencies = Floats[Rows::n][Columns::n];

  /// The number of frequency [i][j] among n^2.
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

  /// B^T d B at channel c of the pixels.
  static CARILLON_INLINE void transform_input(const TilePixels<Rows::n, Columns::n>& pixels, std::int64_t c,
                                              std::int64_t channels, Frequencies& result) {
    const auto value = [&](auto i, auto j) __attribute__((always_inline)) {
      return load_within(pixels.at[i.value][j.value], c, channels);
    };
    transform<Rows::input_matrix, Columns::input_matrix>(value, result);
  }
  /// A dy A^T at filter o of the pixels.
  static CARILLON_INLINE void transform_gradient(const TilePixels<Rows::m, Columns::m>& pixels, std::int64_t o,
                                                 std::int64_t filters, Frequencies& result) {
    const auto value = [&](auto i, auto j) __attribute__((always_inline)) {
      return load_within(pixels.at[i.value][j.value], o, filters);
    };
    transform<Rows::output_matrix, Columns::output_matrix>(value, result);
  }

  /// y = A^T M A + bias, then ReLU with `relu`, at filter o of the tile's pixels inside the image. value(i, j): M.
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
