// NarrowWinogradKernels for one instruction set.
#include "kernels/conv2d/winograd_kernels.h"
#include "kernels/conv2d/winograd_tile.h"
#include "kernels/shared/simd.h"

namespace carillon::CARILLON_ISA {
namespace {

/// Calls body(Constant<channels>). The number of channels is known only at run time.
template <typename Body>
CARILLON_INLINE void with_channels(std::int64_t channels, const Body& body) {
  unroll<NarrowWinogradKernels::max_channels>([&](auto c) __attribute__((always_inline)) {
    if (channels == c.value + 1) body(Constant<c.value + 1>{});
  });
}

template <int m, int r>
struct NarrowWinograd : WinogradTile<m, r> {
  using Base = WinogradTile<m, r>;
  using Base::n;
  using typename Base::Frequencies;
  static constexpr int frequencies = n * n, quad = NarrowWinogradKernels::max_channels;

  static void transform_filters(const float* g, std::int64_t channels, std::int64_t filters, float* u) {
    for (std::int64_t o = 0; o < filters; o += lanes) {
      for (std::int64_t c = 0; c < channels; ++c) {
        Frequencies tile;
        const auto value = [&](auto i, auto j) __attribute__((always_inline)) {
          return load_within(g + ((i.value * r + j.value) * channels + c) * filters, o, filters);
        };
        Base::template transform<Base::filter_matrix, Base::filter_matrix>(value, tile);
        for (int f = 0; f < frequencies; ++f) {
          store(u + ((o / lanes * frequencies + f) * channels + c) * lanes, tile[f / n][f % n]);
        }
      }
    }
  }

  static void transform_inputs(const float* x, const WinogradImages& images, const float* zeros, std::int64_t first,
                               std::int64_t count, float* v) {
    const std::int64_t channels = images.channels;
    for (std::int64_t t = 0; t < count; ++t, v += frequencies * quad) {
      const TilePixels<n> pixels(x, images, TilePlace(images, first + t, m), zeros);
      Quad tile[n][n];
      const auto value = [&](auto i, auto j) __attribute__((always_inline)) {
        return load_quad(pixels.at[i.value][j.value], channels);
      };
      Base::template transform<Base::Rows::input_matrix, Base::Columns::input_matrix>(value, tile);
      for (int f = 0; f < frequencies; ++f) store(v + f * quad, tile[f / n][f % n]);
    }
  }

  template <int channels>
  static CARILLON_INLINE void convolve_vector(const float* v, const float* u, const WinogradImages& images, Floats bias,
                                              bool with_relu, std::int64_t first, std::int64_t count, std::int64_t o,
                                              float* y) {
    for (std::int64_t t = 0; t < count; ++t, v += frequencies * quad) {
      const auto product = [&](auto i, auto j) __attribute__((always_inline)) {
        constexpr int f = i.value * n + j.value;
        Floats sum = broadcast(v[f * quad]) * load(u + f * channels * lanes);
        unroll<channels - 1>([&](auto k) __attribute__((always_inline)) {
          constexpr int c = k.value + 1;
          sum = fma(broadcast(v[f * quad + c]), load(u + (f * channels + c) * lanes), sum);
        });
        return sum;
      };
      Base::store_output(product, images, TilePlace(images, first + t, m), o, bias, with_relu, y);
    }
  }

  static void convolve(const float* v, std::int64_t channels, const float* u, const WinogradImages& images,
                       const float* bias, bool with_relu, std::int64_t first, std::int64_t count, float* y) {
    with_channels(
        channels, [&](auto c) __attribute__((always_inline)) {
          for (std::int64_t o = 0; o < images.channels; o += lanes) {
            convolve_vector<c.value>(v, u + o / lanes * frequencies * channels * lanes, images,
                                     bias_of(bias, o, images.channels), with_relu, first, count, o, y);
          }
        });
  }

  /// Adds V Z to `sums` [n^2][channels] for `tiles` tiles, starting at tile `first`. Processes the vector of filters
  /// that starts at filter `o`. `v`: V of tile `first`.
  template <int channels, int tiles>
  static CARILLON_INLINE void add_products(const float* v, const float* dy, const WinogradImages& images,
                                           const float* zeros, std::int64_t first, std::int64_t o,
                                           Floats (&sums)[frequencies][channels]) {
    Frequencies z[tiles];
    for (int t = 0; t < tiles; ++t) {
      const TilePixels<m> pixels(dy, images, TilePlace(images, first + t, m), zeros);
      Base::transform_gradient(pixels, o, images.channels, z[t]);
    }
    for (int f = 0; f < frequencies; ++f) {
      unroll<channels>([&](auto c) __attribute__((always_inline)) {
        Floats sum = sums[f][c.value];
        unroll<tiles>([&](auto t) __attribute__((always_inline)) {
          sum = fma(broadcast(v[(t.value * frequencies + f) * quad + c.value]), z[t.value][f / n][f % n], sum);
        });
        sums[f][c.value] = sum;
      });
    }
  }

  static void multiply_gradients(const float* v, std::int64_t channels, const float* dy, const WinogradImages& images,
                                 const float* zeros, std::int64_t first, std::int64_t count, bool add, float* w) {
    constexpr int together = 4;  // number of tiles that are added to a sum while the sum is in a register
    with_channels(
        channels, [&](auto c) __attribute__((always_inline)) {
          constexpr std::int64_t v_tile = frequencies * quad;
          for (std::int64_t o = 0; o < images.channels; o += lanes) {
            Floats sums[frequencies][c.value] = {};
            std::int64_t t = 0;
            for (; t + together <= count; t += together) {
              add_products<c.value, together>(v + t * v_tile, dy, images, zeros, first + t, o, sums);
            }
            for (; t < count; ++t) add_products<c.value, 1>(v + t * v_tile, dy, images, zeros, first + t, o, sums);
            for (int f = 0; f < frequencies; ++f) {
              for (int k = 0; k < c.value; ++k) {
                float* const to = w + ((o / lanes * frequencies + f) * c.value + k) * lanes;
                store(to, add ? load(to) + sums[f][k] : sums[f][k]);
              }
            }
          }
        });
  }

  static void transform_filter_gradients(const float* w, std::int64_t channels, std::int64_t filters, float* dg) {
    for (std::int64_t o = 0; o < filters; o += lanes) {
      for (std::int64_t c = 0; c < channels; ++c) {
        const auto value = [&](auto i, auto j) __attribute__((always_inline)) {
          return load(w + ((o / lanes * frequencies + i.value * n + j.value) * channels + c) * lanes);
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

  static constexpr NarrowWinogradKernels kernels{.lanes = lanes,
                                                 .tile = m,
                                                 .filter = r,
                                                 .frequencies = frequencies,
                                                 .transform_filters = transform_filters,
                                                 .transform_inputs = transform_inputs,
                                                 .convolve = convolve,
                                                 .multiply_gradients = multiply_gradients,
                                                 .transform_filter_gradients = transform_filter_gradients};
};

}  // namespace

const NarrowWinogradKernels* narrow_winograd_kernels(std::int64_t filter) {
  if (filter == 3) return &NarrowWinograd<4, 3>::kernels;
  if (filter == 5) return &NarrowWinograd<4, 5>::kernels;
  return nullptr;
}

}  // namespace carillon::CARILLON_ISA
