// WinogradKernels for one instruction set: transforms of tiles, and matrix products whose accumulators fill the
// registers. Few channels: winograd_narrow_simd.cpp.
#include "kernels/conv2d/winograd_kernels.h"
#include "kernels/conv2d/winograd_tile.h"
#include "kernels/shared/simd.h"

namespace carillon::CARILLON_ISA {
namespace {

/// Rows of a product's block: with two vectors a row, accumulators for all but a few of the registers.
constexpr int max_rows = lanes == 16 ? 12 : lanes == 8 ? 6 : 4;
constexpr int panel_vectors = 2, panel = panel_vectors * lanes;
/// Channels that a block multiplies at a time: a panel's share of U stays in the first cache.
constexpr std::int64_t max_depth = 256;

/// Calls body(first, rows) for nearly equal blocks of at most max_rows rows that cover [first, last).
template <typename Body>
CARILLON_INLINE void for_row_blocks(std::int64_t first, std::int64_t last, const Body& body) {
  const std::int64_t count = last - first, blocks = (count + max_rows - 1) / max_rows;
  for (std::int64_t i = 0; i < blocks; ++i) {
    const std::int64_t begin = first + count * i / blocks, end = first + count * (i + 1) / blocks;
    body(begin, end - begin);
  }
}

/// Calls body(first, Constant<vectors>) for panels of two vectors, the last perhaps of one, that cover `columns`.
template <typename Body>
CARILLON_INLINE void for_panels(std::int64_t columns, const Body& body) {
  std::int64_t at = 0;
  for (; at + panel <= columns; at += panel) body(at, Constant<panel_vectors>{});
  if (at < columns) body(at, Constant<1>{});
}

template <int rows, int vectors>
struct Accumulators {
  Floats at[rows][vectors];

  CARILLON_INLINE void clear() {
    unroll<rows>([&](auto r) __attribute__((always_inline)) {
      unroll<vectors>([&](auto v) __attribute__((always_inline)) { at[r.value][v.value] = Floats{}; });
    });
  }
  /// += a[r * step] * b, for each row r.
  CARILLON_INLINE void add_outer_product(const float* a, std::int64_t step, const float* b) {
    Floats factors[vectors];
    unroll<vectors>([&](auto v) __attribute__((always_inline)) { factors[v.value] = load(b + v.value * lanes); });
    unroll<rows>([&](auto r) __attribute__((always_inline)) {
      const Floats row = broadcast(a[r.value * step]);
      unroll<vectors>([&](auto v) __attribute__((always_inline)) {
        at[r.value][v.value] = fma(row, factors[v.value], at[r.value][v.value]);
      });
    });
  }
  CARILLON_INLINE void add_from(const float* c, std::int64_t columns) {
    unroll<rows>([&](auto r) __attribute__((always_inline)) {
      unroll<vectors>([&](auto v) __attribute__((always_inline)) {
        at[r.value][v.value] += load(c + r.value * columns + v.value * lanes);
      });
    });
  }
  CARILLON_INLINE void store_to(float* c, std::int64_t columns) const {
    unroll<rows>([&](auto r) __attribute__((always_inline)) {
      unroll<vectors>([&](auto v) __attribute__((always_inline)) {
        store(c + r.value * columns + v.value * lanes, at[r.value][v.value]);
      });
    });
  }
};

/// A block of a product: c [rows, vectors] = or += the sum over `depth` steps of a's column times b's row.
struct ProductBlock {
  const float* a;
  std::int64_t a_row, a_step;  ///< from row to row, from step to step
  const float* b;
  std::int64_t b_step;
  float* c;
  std::int64_t c_row;
  std::int64_t depth;
  bool add;
};

template <int rows, int vectors>
__attribute__((noinline)) void run_block(const ProductBlock& block) {
  Accumulators<rows, vectors> sums;
  sums.clear();
  const float *a = block.a, *b = block.b;
  const std::int64_t a_row = block.a_row, a_step = block.a_step, b_step = block.b_step;
  for (std::int64_t k = 0; k < block.depth; ++k, a += a_step, b += b_step) sums.add_outer_product(a, a_row, b);
  if (block.add) sums.add_from(block.c, block.c_row);
  sums.store_to(block.c, block.c_row);
}

/// run_block for a number of rows that is known at run time.
template <int vectors>
CARILLON_INLINE void run_rows(std::int64_t rows, const ProductBlock& block) {
  unroll<max_rows>([&](auto r) __attribute__((always_inline)) {
    if (rows == r.value + 1) run_block<r.value + 1, vectors>(block);
  });
}

template <int m, int r>
struct Winograd : WinogradTile<m, r> {
  using Base = WinogradTile<m, r>;
  using Base::n;
  using typename Base::Frequencies;

  /// A value for each frequency into the matrices, at one vector of one row.
  static CARILLON_INLINE void scatter(const Frequencies& tile, float* to, std::int64_t stride) {
    unroll<n>([&](auto i) __attribute__((always_inline)) {
      unroll<n>([&](auto j) __attribute__((always_inline)) {
        store(to + (i.value * n + j.value) * stride, tile[i.value][j.value]);
      });
    });
  }

  static void transform_filters(const float* g, std::int64_t channels, std::int64_t filters, std::int64_t first,
                                std::int64_t last, const WinogradMatrices& u) {
    for (std::int64_t c = first; c < last; ++c) {
      for (std::int64_t o = 0; o < filters; o += lanes) {
        Frequencies tile;
        const auto value = [&](auto i, auto j) __attribute__((always_inline)) {
          return load_within(g + ((i.value * r + j.value) * channels + c) * filters, o, filters);
        };
        Base::template transform<Base::filter_matrix>(value, tile);
        const std::int64_t panel_first = o / panel * panel, width = smaller(panel, u.columns - panel_first);
        scatter(tile, u.data + panel_first * channels + c * width + o - panel_first, u.stride);
      }
    }
  }

  static void transform_inputs(const float* x, const WinogradImages& images, const float* zeros, std::int64_t first,
                               std::int64_t count, std::int64_t row, const WinogradMatrices& v) {
    for (std::int64_t t = 0; t < count; ++t) {
      const TilePixels<n> pixels(x, images, TilePlace(images, first + t, m), zeros);
      float* const to = v.data + (row + t) * v.columns;
      for (std::int64_t c = 0; c < images.channels; c += lanes) {
        Frequencies tile;
        Base::transform_input(pixels, c, images.channels, tile);
        scatter(tile, to + c, v.stride);
      }
    }
  }

  static void multiply(const WinogradMatrices& v, const WinogradMatrices& u, std::int64_t rows, std::int64_t channels,
                       const WinogradMatrices& to) {
    for (int f = 0; f < n * n; ++f) {
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
    for (std::int64_t t = 0; t < count; ++t) {
      const TilePlace place(images, first + t, m);
      for (std::int64_t o = 0; o < images.channels; o += lanes) {
        const float* const at = from.data + t * from.columns + o;
        const auto value = [&](auto i, auto j) __attribute__((always_inline)) {
          return load(at + (i.value * n + j.value) * from.stride);
        };
        Base::store_output(value, images, place, o, bias_of(bias, o, images.channels), with_relu, y);
      }
    }
  }

  static void transform_output_gradients(const float* dy, const WinogradImages& images, const float* zeros,
                                         std::int64_t first, std::int64_t count, std::int64_t row,
                                         const WinogradMatrices& z) {
    for (std::int64_t t = 0; t < count; ++t) {
      const TilePixels<m> pixels(dy, images, TilePlace(images, first + t, m), zeros);
      float* const to = z.data + (row + t) * z.columns;
      for (std::int64_t o = 0; o < images.channels; o += lanes) {
        Frequencies tile;
        Base::transform_gradient(pixels, o, images.channels, tile);
        scatter(tile, to + o, z.stride);
      }
    }
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
        Base::template transform_back<Base::filter_matrix>(value, take);
      }
    }
  }

  static constexpr WinogradKernels kernels{.lanes = lanes,
                                           .tile = m,
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
  if (filter == 3) return &Winograd<4, 3>::kernels;
  if (filter == 5) return &Winograd<4, 5>::kernels;
  return nullptr;
}

}  // namespace carillon::CARILLON_ISA
