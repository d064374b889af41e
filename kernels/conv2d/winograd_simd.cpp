// WinogradKernels for one instruction set: transforms of tiles, and matrix products whose accumulators fill the
// registers.
#include "kernels/conv2d/winograd_kernels.h"
#include "kernels/conv2d/winograd_transforms.h"
#include "kernels/shared/simd.h"

namespace carillon::CARILLON_ISA {
namespace {

/// Rows of a product's block: with two vectors a row, accumulators for all but a few of the registers.
constexpr int max_rows = lanes == 16 ? 12 : lanes == 8 ? 6 : 4;
constexpr int panel_vectors = 2, panel = panel_vectors * lanes;
/// Channels that a block multiplies at a time: a panel's share of U stays in the first cache.
constexpr std::int64_t max_depth = 256;

CARILLON_INLINE std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
CARILLON_INLINE std::int64_t whole_vectors(std::int64_t count) { return (count + lanes - 1) / lanes * lanes; }

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
struct Winograd {
  static constexpr int n = m + r - 1;
  static_assert(n % 2 == 0, "finite points come in pairs behind the first, and infinity makes it even");
  static constexpr auto input_matrix = polynomials<n>();
  static constexpr auto filter_matrix = powers<n, r>(true);
  static constexpr auto output_matrix = powers<n, m>(false);

  using Tile = Floats[n][n];

  /// A value for each frequency into the matrices, at one vector of one row.
  static CARILLON_INLINE void scatter(const Tile& tile, float* to, std::int64_t stride) {
    unroll<n>([&](auto i) __attribute__((always_inline)) {
      unroll<n>([&](auto j) __attribute__((always_inline)) {
        store(to + (i.value * n + j.value) * stride, tile[i.value][j.value]);
      });
    });
  }

  /// Where the tile's `size` x `size` pixels lie; `zeros` where there is no image.
  template <int size>
  static CARILLON_INLINE void find_pixels(const float* base, const WinogradImages& images, const float* zeros,
                                          std::int64_t tile, const float* (&pixels)[size][size]) {
    const std::int64_t column = tile % images.tiles_across * m + images.first_column;
    const std::int64_t row = tile / images.tiles_across % images.tiles_down * m + images.first_row;
    const std::int64_t image = tile / (images.tiles_across * images.tiles_down);
    const float* const corner = base + ((image * images.height + row) * images.width + column) * images.channels;
    for (int i = 0; i < size; ++i) {
      const bool row_inside = row + i >= 0 && row + i < images.height;
      for (int j = 0; j < size; ++j) {
        const bool inside = row_inside && column + j >= 0 && column + j < images.width;
        pixels[i][j] = inside ? corner + (i * images.width + j) * images.channels : zeros;
      }
    }
  }

  static void transform_filters(const float* g, std::int64_t channels, std::int64_t filters, std::int64_t first,
                                std::int64_t last, const WinogradMatrices& u) {
    for (std::int64_t c = first; c < last; ++c) {
      for (std::int64_t o = 0; o < filters; o += lanes) {
        Floats columns[n][r];
        Tile tile;
        unroll<r>([&](auto j) __attribute__((always_inline)) {
          Floats in[r], out[n];
          for (int i = 0; i < r; ++i) in[i] = load_within(g + ((i * r + j.value) * channels + c) * filters, o, filters);
          multiply_by<filter_matrix>(in, out);
          for (int i = 0; i < n; ++i) columns[i][j.value] = out[i];
        });
        unroll<n>([&](auto i)
                      __attribute__((always_inline)) { multiply_by<filter_matrix>(columns[i.value], tile[i.value]); });
        const std::int64_t panel_first = o / panel * panel, width = smaller(panel, u.columns - panel_first);
        scatter(tile, u.data + panel_first * channels + c * width + o - panel_first, u.stride);
      }
    }
  }

  static void transform_inputs(const float* x, const WinogradImages& images, const float* zeros, std::int64_t first,
                               std::int64_t count, std::int64_t row, const WinogradMatrices& v) {
    for (std::int64_t t = 0; t < count; ++t) {
      const float* pixels[n][n];
      find_pixels<n>(x, images, zeros, first + t, pixels);
      float* const to = v.data + (row + t) * v.columns;
      for (std::int64_t c = 0; c < images.channels; c += lanes) {
        Tile columns, tile;
        unroll<n>([&](auto j) __attribute__((always_inline)) {
          Floats in[n], out[n];
          for (int i = 0; i < n; ++i) in[i] = load_within(pixels[i][j.value], c, images.channels);
          multiply_by<input_matrix>(in, out);
          for (int i = 0; i < n; ++i) columns[i][j.value] = out[i];
        });
        unroll<n>([&](auto i)
                      __attribute__((always_inline)) { multiply_by<input_matrix>(columns[i.value], tile[i.value]); });
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
      const std::int64_t column = (first + t) % images.tiles_across * m;
      const std::int64_t row = (first + t) / images.tiles_across % images.tiles_down * m;
      const std::int64_t image = (first + t) / (images.tiles_across * images.tiles_down);
      float* const corner = y + ((image * images.height + row) * images.width + column) * images.channels;
      const std::int64_t rows = smaller(m, images.height - row), columns_left = smaller(m, images.width - column);
      for (std::int64_t c = 0; c < images.channels; c += lanes) {
        const float* const at = from.data + t * from.columns + c;
        const Floats b = bias != nullptr ? load_within(bias, c, images.channels) : Floats{};
        Floats half[m][n];
        unroll<n>([&](auto j) __attribute__((always_inline)) {
          Floats in[n], out[m];
          unroll<n>([&](auto i) __attribute__((always_inline)) {
            in[i.value] = load(at + (i.value * n + j.value) * from.stride);
          });
          multiply_by_transposed<output_matrix>(in, out);
          for (int i = 0; i < m; ++i) half[i][j.value] = out[i];
        });
        unroll<m>([&](auto i) __attribute__((always_inline)) {
          if (i.value >= rows) return;
          Floats out[m];
          multiply_by_transposed<output_matrix>(half[i.value], out);
          unroll<m>([&](auto j) __attribute__((always_inline)) {
            if (j.value >= columns_left) return;
            const Floats z = out[j.value] + b;
            store_within(corner + (i.value * images.width + j.value) * images.channels, c, images.channels,
                         with_relu ? relu(z) : z);
          });
        });
      }
    }
  }

  static void transform_output_gradients(const float* dy, const WinogradImages& images, const float* zeros,
                                         std::int64_t first, std::int64_t count, std::int64_t row,
                                         const WinogradMatrices& z) {
    for (std::int64_t t = 0; t < count; ++t) {
      const float* pixels[m][m];
      find_pixels<m>(dy, images, zeros, first + t, pixels);
      float* const to = z.data + (row + t) * z.columns;
      for (std::int64_t c = 0; c < images.channels; c += lanes) {
        Floats columns[n][m];
        Tile tile;
        unroll<m>([&](auto j) __attribute__((always_inline)) {
          Floats in[m], out[n];
          for (int i = 0; i < m; ++i) in[i] = load_within(pixels[i][j.value], c, images.channels);
          multiply_by<output_matrix>(in, out);
          for (int i = 0; i < n; ++i) columns[i][j.value] = out[i];
        });
        unroll<n>([&](auto i)
                      __attribute__((always_inline)) { multiply_by<output_matrix>(columns[i.value], tile[i.value]); });
        scatter(tile, to + c, z.stride);
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
        const float* const at = w.data + c * w.columns + o;
        Floats half[r][n];
        unroll<n>([&](auto j) __attribute__((always_inline)) {
          Floats in[n], out[r];
          for (int i = 0; i < n; ++i) in[i] = load(at + (i * n + j.value) * w.stride);
          multiply_by_transposed<filter_matrix>(in, out);
          for (int i = 0; i < r; ++i) half[i][j.value] = out[i];
        });
        unroll<r>([&](auto i) __attribute__((always_inline)) {
          Floats out[r];
          multiply_by_transposed<filter_matrix>(half[i.value], out);
          for (int j = 0; j < r; ++j) {
            store_within(dg + ((i.value * r + j) * channels + c) * filters, o, filters, out[j]);
          }
        });
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
