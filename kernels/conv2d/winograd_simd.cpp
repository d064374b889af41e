// WinogradKernels for one instruction set: transforms of tiles, and their products. winograd_narrow_simd.cpp has the
// kernels for few channels.
#include "kernels/conv2d/winograd_kernels.h"
#include "kernels/conv2d/winograd_product.h"
#include "kernels/conv2d/winograd_tile.h"
#include "kernels/shared/simd.h"

namespace carillon::CARILLON_ISA {
namespace {

/// Passes a type as a function argument.
template <typename T>
struct TypeOf {
  using Type = T;
};

/// short_m: number of output rows or columns of a short tile; equal to m if there are no short tiles.
template <int m, int r, int short_m>
struct Winograd {
  using Base = WinogradTile<m, r>;
  static constexpr int n = Base::n;

  /// Calls body(TypeOf<Tile>) with the tile type that `images` needs (short_rows, short_columns).
  template <typename Body>
  static CARILLON_INLINE void with_tile(const WinogradImages& images, const Body& body) {
    if constexpr (short_m == m) {
      body(TypeOf<Base>{});
    } else if (images.short_rows) {
      images.short_columns ? body(TypeOf<WinogradTile<m, r, short_m, short_m>>{})
                           : body(TypeOf<WinogradTile<m, r, short_m, m>>{});
    } else {
      images.short_columns ? body(TypeOf<WinogradTile<m, r, m, short_m>>{}) : body(TypeOf<Base>{});
    }
  }

  /// Writes the vector of each frequency of the tile to the matrix of this frequency. `to`: address of the vector in
  /// the matrix of frequency 0. `stride`: floats between two matrices.
  template <typename Tile>
  static CARILLON_INLINE void scatter(const typename Tile::Frequencies& tile, float* to, std::int64_t stride) {
    unroll<Tile::Rows::n>([&](auto i) __attribute__((always_inline)) {
      unroll<Tile::Columns::n>([&](auto j) __attribute__((always_inline)) {
        store(to + Tile::frequency(i.value, j.value) * stride, tile[i.value][j.value]);
      });
    });
  }

  static void transform_filters(const float* g, std::int64_t channels, std::int64_t filters, std::int64_t first,
                                std::int64_t last, const WinogradMatrices& u) {
    for (std::int64_t c = first; c < last; ++c) {
      for (std::int64_t o = 0; o < filters; o += lanes) {
        typename Base::Frequencies tile;
        const auto value = [&](auto i, auto j) __attribute__((always_inline)) {
          return load_within(g + ((i.value * r + j.value) * channels + c) * filters, o, filters);
        };
        Base::template transform<Base::filter_matrix, Base::filter_matrix>(value, tile);
        const std::int64_t panel_first = o / panel * panel, width = smaller(panel, u.columns - panel_first);
        scatter<Base>(tile, u.data + panel_first * channels + c * width + o - panel_first, u.stride);
      }
    }
  }

  static void transform_inputs(const float* x, const WinogradImages& images, const float* zeros, std::int64_t first,
                               std::int64_t count, std::int64_t row, const WinogradMatrices& v) {
    with_tile(
        images, [&](auto type) __attribute__((always_inline)) {
          using Tile = typename decltype(type)::Type;
          for (std::int64_t t = 0; t < count; ++t) {
            const TilePixels<Tile::Rows::n, Tile::Columns::n> pixels(x, images, TilePlace(images, first + t, m), zeros);
            float* const to = v.data + (row + t) * v.columns;
            for (std::int64_t c = 0; c < images.channels; c += lanes) {
              typename Tile::Frequencies tile;
              Tile::transform_input(pixels, c, images.channels, tile);
              scatter<Tile>(tile, to + c, v.stride);
            }
          }
        });
  }

  static void multiply(const WinogradMatrices& v, const WinogradMatrices& u, const WinogradImages& images,
                       std::int64_t rows, const WinogradMatrices& to) {
    const std::int64_t channels = images.channels;
    for (int f = 0; f < n * n; ++f) {
      if (!has_frequency(images, n, f)) continue;
      for_panels(
          to.columns, [&](std::int64_t column, auto vectors) __attribute__((always_inline)) {
            constexpr int width = vectors.value * lanes;
            for (std::int64_t c = 0; c < channels; c += max_depth) {
              const float* const b = u.data + f * u.stride + column * channels + c * width;
              for_row_blocks(
                  0, rows, [&](std::int64_t row, std::int64_t count) __attribute__((always_inline)) {
                    run_rows<vectors.value>(count, {.a = v.data + f * v.stride + row * v.columns + c,
                                                    .a_row = v.columns,
                                                    .a_step = 1,
                                                    .b = b,
                                                    .b_step = width,
                                                    .b_next = smaller(max_depth, channels - c) * width,
                                                    .c = to.data + f * to.stride + row * to.columns + column,
                                                    .c_row = to.columns,
                                                    .depth = smaller(max_depth, channels - c),
                                                    .add = c > 0});
                  });
            }
          });
    }
  }

  static void transform_outputs(const WinogradMatrices& from, const WinogradImages& images, const float* bias,
                                bool with_relu, std::int64_t first, std::int64_t count, float* y) {
    with_tile(
        images, [&](auto type) __attribute__((always_inline)) {
          using Tile = typename decltype(type)::Type;
          for (std::int64_t t = 0; t < count; ++t) {
            const TilePlace place(images, first + t, m);
            for (std::int64_t o = 0; o < images.channels; o += lanes) {
              const float* const at = from.data + t * from.columns + o;
              const auto value = [&](auto i, auto j) __attribute__((always_inline)) {
                return load(at + Tile::frequency(i.value, j.value) * from.stride);
              };
              Tile::store_output(value, images, place, o, bias_of(bias, o, images.channels), with_relu, y);
            }
          }
        });
  }

  static void transform_output_gradients(const float* dy, const WinogradImages& images, const float* zeros,
                                         std::int64_t first, std::int64_t count, std::int64_t row,
                                         const WinogradMatrices& z) {
    with_tile(
        images, [&](auto type) __attribute__((always_inline)) {
          using Tile = typename decltype(type)::Type;
          for (std::int64_t t = 0; t < count; ++t) {
            const TilePixels<Tile::Rows::m, Tile::Columns::m> pixels(dy, images, TilePlace(images, first + t, m),
                                                                     zeros);
            float* const to = z.data + (row + t) * z.columns;
            for (std::int64_t o = 0; o < images.channels; o += lanes) {
              typename Tile::Frequencies tile;
              Tile::transform_gradient(pixels, o, images.channels, tile);
              scatter<Tile>(tile, to + o, z.stride);
            }
          }
        });
  }

  static void multiply_transposed(const WinogradMatrices& v, const WinogradMatrices& z, std::int64_t rows,
                                  std::int64_t block_rows, int frequency, std::int64_t first, std::int64_t last,
                                  bool add, const WinogradMatrices& w) {
    for (std::int64_t row = 0; row < rows; row += block_rows) {
      for_panels(
          w.columns, [&](std::int64_t column, auto vectors) __attribute__((always_inline)) {
            for_row_blocks(
                first, last, [&](std::int64_t channel, std::int64_t count) __attribute__((always_inline)) {
                  run_rows<vectors.value>(count, {.a = v.data + frequency * v.stride + row * v.columns + channel,
                                                  .a_row = 1,
                                                  .a_step = v.columns,
                                                  .b = z.data + frequency * z.stride + row * z.columns + column,
                                                  .b_step = z.columns,
                                                  .b_next = panel,
                                                  .c = w.data + frequency * w.stride + channel * w.columns + column,
                                                  .c_row = w.columns,
                                                  .depth = smaller(block_rows, rows - row),
                                                  .add = add || row > 0});
                });
          });
    }
  }

  static void transform_filter_gradients(const WinogradMatrices& w, std::int64_t channels, std::int64_t filters,
                                         std::int64_t first, std::int64_t last, float* dg) {
    for (std::int64_t c = first; c < last; ++c) {
      for (std::int64_t o = 0; o < filters; o += lanes) {
        const auto value = [&](auto i, auto j) __attribute__((always_inline)) {
          return load(w.data + (i.value * n + j.value) * w.stride + c * w.columns + o);
        };
        const auto take = [&](auto i, const Floats* out) __attribute__((always_inline)) {
          for (int j = 0; j < r; ++j) {
            store_within(dg + ((i.value * r + j) * channels + c) * filters, o, filters, out[j]);
          }
        };
        Base::template transform_back<Base::filter_matrix, Base::filter_matrix>(value, take);
      }
    }
  }

  static constexpr WinogradKernels kernels{.lanes = lanes,
                                           .tile = m,
                                           .short_tile = short_m,
                                           .filter = r,
                                           .frequencies = n * n,
                                           .transform_filters = transform_filters,
                                           .transform_inputs = transform_inputs,
                                           .multiply = multiply,
                                           .transform_outputs = transform_outputs,
                                           .transform_output_gradients = transform_output_gradients,
                                           .multiply_transposed = multiply_transposed,
                                           .transform_filter_gradients = transform_filter_gradients};
};

}  // namespace

const WinogradKernels* winograd_kernels(std::int64_t filter) {
  if (filter == 3) return &Winograd<4, 3, 3>::kernels;
  if (filter == 5) return &Winograd<4, 5, 4>::kernels;
  return nullptr;
}

}  // namespace carillon::CARILLON_ISA
