// The arithmetic of lrn for one element, on CPU and GPU, and the kernels on a GPU.
//
// A block owns neighbouring elements of the flat tensor: whole pixels or, if a pixel has too many channels, a part of a
// pixel. Shared contains the elements of x that the windows read. These are the owned elements. If the block owns a
// part of a pixel, Shared also contains 2 * depth_radius elements on each side. Reason: the gradient of an owned
// element reads terms up to depth_radius away, and these terms have their own windows. Threads process packs of n
// channels.
#pragma once

#include <cmath>
#include <cstdint>

#include "carillon/core/host_device.h"
#include "kernels/lrn/lrn.h"
#include "kernels/shared/pack.h"

namespace carillon {

/// Powers of s = bias + alpha * (sum of squares in the window).
struct LrnPowers {
  float scale;    ///< s^-beta
  float inverse;  ///< 1 / s
};

/// Returns s^-1/2. On a GPU, the error is two units in the last place.
CARILLON_HOST_DEVICE inline float inverse_root(float s) {
#ifdef __CUDA_ARCH__
  return rsqrtf(s);
#else
  return 1.0f / std::sqrt(s);
#endif
}

/// `three_quarters`: true if beta is 0.75. In this case, s^-beta is computed as s^-1/2 * sqrt(s^-1/2).
template <bool three_quarters>
CARILLON_HOST_DEVICE inline LrnPowers lrn_powers(float s, float beta) {
  if constexpr (three_quarters) {
    const float root = inverse_root(s);
    return {root * std::sqrt(root), root * root};
  } else {
    return {std::pow(s, -beta), 1.0f / s};
  }
}

/// Returns first[0] + ... + first[2 radius].
template <int radius>
CARILLON_HOST_DEVICE inline float lrn_window_sum(const float* first) {
  float sum = first[0];
  for (int i = 1; i <= 2 * radius; ++i) sum += first[i];
  return sum;
}

inline constexpr int lrn_tile = 1024;  ///< largest number of the tensor's elements in Shared

/// The division of the tensor into blocks. All counts are multiples of the pack size.
struct LrnCut {
  std::int64_t count;  ///< number of elements
  int channels, radius;
  int owned, halo;  ///< owned: number of elements that a block owns; 0: the shape is not supported. halo: number of
                    ///< elements that the block also reads on each side

  /// Shared contains the elements [begin, begin + size). The block owns the elements [first, last).
  struct Tile {
    std::int64_t begin;
    int size, first, last;
    int channel;  ///< channel of element `begin`
  };
  int blocks() const { return static_cast<int>((count + owned - 1) / owned); }
  CARILLON_HOST_DEVICE Tile tile(int block) const {
    const std::int64_t first = static_cast<std::int64_t>(block) * owned;
    const std::int64_t begin = first > halo ? first - halo : 0;
    const std::int64_t left = count - begin;  // the last block may own fewer elements
    const int offset = static_cast<int>(first - begin), last = offset + owned, size = last + halo;
    return {.begin = begin,
            .size = size < left ? size : static_cast<int>(left),
            .first = offset,
            .last = last < left ? last : static_cast<int>(left),
            .channel = halo == 0 ? 0 : static_cast<int>(begin % channels)};
  }
};

inline LrnCut lrn_cut(std::int64_t count, std::int64_t channels, int depth_radius, int pack_size) {
  const int radius = depth_radius < channels ? depth_radius : static_cast<int>(channels) - 1;
  LrnCut cut{.count = count, .channels = static_cast<int>(channels), .radius = radius, .owned = 0, .halo = 0};
  if (channels <= lrn_tile) {
    cut.owned = lrn_tile / cut.channels * cut.channels;
  } else if (radius < lrn_tile / 8) {
    cut.halo = (2 * radius + pack_size - 1) / pack_size * pack_size;
    cut.owned = lrn_tile - 2 * cut.halo;
  }
  return cut;
}

struct LrnSquare {
  CARILLON_HOST_DEVICE float operator()(float value) const { return value * value; }
};
struct LrnValue {
  CARILLON_HOST_DEVICE float operator()(float value) const { return value; }
};

/// Returns the sum of F(values[j]) over the window of element `at` of a tile. `channel`: channel of the element. The
/// radius may be any number.
template <typename F>
CARILLON_HOST_DEVICE inline Pack<float, 1> lrn_window_sum_of_any(const float* values, const LrnCut& cut,
                                                                 const LrnCut::Tile& tile, int at, int channel) {
  const int to_last = cut.channels - 1 - channel;
  const int below = channel < cut.radius ? channel : cut.radius, above = to_last < cut.radius ? to_last : cut.radius;
  const int first = at > below ? at - below : 0;  // a tile may end within a pixel; the sums at the end of such a tile
                                                  // are not used
  const int last = at + above < tile.size ? at + above : tile.size - 1;
  Pack<float, 1> sum = {};
  for (int j = first; j <= last; ++j) sum.at[0] += F{}(values[j]);
  return sum;
}

/// Does the same as lrn_window_sum_of_any with radius 4, but for the four elements `at` to `at` + 3. Three packs
/// contain the four windows, which have six values in common.
template <typename F>
CARILLON_HOST_DEVICE inline Pack<float, 4> lrn_window_sums_of_9(const float* values, const LrnCut& cut,
                                                                const LrnCut::Tile& tile, int at, int channel) {
  Pack<float, 4> low = {}, middle = load<4>(values + at), high = {};  // zeros beyond the pixel
  if (channel >= 4 && at >= 4) low = load<4>(values + at - 4);
  if (channel + 4 < cut.channels && at + 4 < tile.size) high = load<4>(values + at + 4);
  for (int i = 0; i < 4; ++i) {
    low.at[i] = F{}(low.at[i]);
    middle.at[i] = F{}(middle.at[i]);
    high.at[i] = F{}(high.at[i]);
  }
  const float shared = low.at[3] + (middle.at[0] + middle.at[1]) + (middle.at[2] + middle.at[3]) + high.at[0];
  const float low_2 = low.at[1] + low.at[2], high_2 = high.at[1] + high.at[2];
  return {{low.at[0] + low_2 + shared, low_2 + shared + high.at[1], low.at[2] + shared + high_2,
           shared + high_2 + high.at[3]}};
}

/// The parts that are common to forward and backward. Packs of n = 4 require radius 4. Packs of n = 1 permit any
/// radius.
template <typename T, int n, bool three_quarters>
struct LrnBlock {
  static constexpr int threads = 256;

  LrnCut cut;
  float bias, alpha, beta;

  int blocks() const { return cut.blocks(); }

 protected:
  template <typename F>
  CARILLON_HOST_DEVICE Pack<float, n> window_sums(const float* values, const LrnCut::Tile& tile, int at) const {
    const int channel =
        static_cast<int>(static_cast<unsigned>(tile.channel + at) % static_cast<unsigned>(cut.channels));
    if constexpr (n == 4) return lrn_window_sums_of_9<F>(values, cut, tile, at, channel);
    if constexpr (n == 1) return lrn_window_sum_of_any<F>(values, cut, tile, at, channel);
  }
  CARILLON_HOST_DEVICE LrnPowers powers(float squares) const {
    return lrn_powers<three_quarters>(bias + alpha * squares, beta);
  }
  CARILLON_HOST_DEVICE static void load_tile(const T* x, const LrnCut::Tile& tile, int thread, float* values) {
    for (int k = thread * n; k < tile.size; k += threads * n) store(load_floats<n>(x + tile.begin + k), values + k);
  }
};

template <typename T, int n, bool three_quarters>
struct LrnForward : LrnBlock<T, n, three_quarters> {
  using Block = LrnBlock<T, n, three_quarters>;
  static constexpr int phases = 2;
  struct Shared {
    alignas(pack_bytes) float x[lrn_tile];
  };

  const T* x;  ///< [count]
  T* y;        ///< [count]

  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared& shared, int block, int thread) const {
    const LrnCut::Tile tile = this->cut.tile(block);
    if constexpr (phase == 0) Block::load_tile(x, tile, thread, shared.x);
    if constexpr (phase == 1) find_outputs(shared, tile, thread);
  }

 private:
  CARILLON_HOST_DEVICE void find_outputs(const Shared& shared, const LrnCut::Tile& tile, int thread) const {
    for (int k = tile.first + thread * n; k < tile.last; k += Block::threads * n) {
      const Pack<float, n> squares = this->template window_sums<LrnSquare>(shared.x, tile, k);
      Pack<float, n> values = load<n>(shared.x + k);
      for (int i = 0; i < n; ++i) values.at[i] *= this->powers(squares.at[i]).scale;
      store_floats(values, y + tile.begin + k);
    }
  }
};

template <typename T, int n, bool three_quarters>
struct LrnBackward : LrnBlock<T, n, three_quarters> {
  using Block = LrnBlock<T, n, three_quarters>;
  static constexpr int phases = 3;
  struct Shared {
    alignas(pack_bytes) float x[lrn_tile];
    alignas(pack_bytes) float direct[lrn_tile];  ///< dy s^-beta
    alignas(pack_bytes) float terms[lrn_tile];   ///< dy x s^(-beta-1)
  };

  const T *x, *dy;  ///< [count]
  T* dx;            ///< [count]

  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared& shared, int block, int thread) const {
    const LrnCut::Tile tile = this->cut.tile(block);
    if constexpr (phase == 0) Block::load_tile(x, tile, thread, shared.x);
    if constexpr (phase == 1) find_terms(shared, tile, thread);
    if constexpr (phase == 2) find_gradients(shared, tile, thread);
  }

 private:
  CARILLON_HOST_DEVICE void find_terms(Shared& shared, const LrnCut::Tile& tile, int thread) const {
    for (int k = thread * n; k < tile.size; k += Block::threads * n) {
      const Pack<float, n> squares = this->template window_sums<LrnSquare>(shared.x, tile, k);
      const Pack<float, n> values = load<n>(shared.x + k);
      Pack<float, n> direct = load_floats<n>(dy + tile.begin + k), terms;
      for (int i = 0; i < n; ++i) {
        const LrnPowers powers = this->powers(squares.at[i]);
        direct.at[i] *= powers.scale;
        terms.at[i] = direct.at[i] * values.at[i] * powers.inverse;
      }
      store(direct, shared.direct + k);
      store(terms, shared.terms + k);
    }
  }

  CARILLON_HOST_DEVICE void find_gradients(const Shared& shared, const LrnCut::Tile& tile, int thread) const {
    const float factor = -2.0f * this->alpha * this->beta;
    for (int k = tile.first + thread * n; k < tile.last; k += Block::threads * n) {
      const Pack<float, n> sums = this->template window_sums<LrnValue>(shared.terms, tile, k);
      const Pack<float, n> values = load<n>(shared.x + k);
      Pack<float, n> gradients = load<n>(shared.direct + k);
      for (int i = 0; i < n; ++i) gradients.at[i] += factor * values.at[i] * sums.at[i];
      store_floats(gradients, dx + tile.begin + k);
    }
  }
};

/// Chooses the fastest combination of n and three_quarters for the parameters, and calls body with n and three_quarters
/// as constants. n: number of elements of a pack; three_quarters: true if beta is 0.75 (lrn_powers).
template <typename Body>
void with_lrn_form(const LrnParams& params, std::int64_t channels, const Body& body) {
  const auto with_pack = [&](auto n) {
    if (params.beta == 0.75f) {
      body(n, std::true_type{});
    } else {
      body(n, std::false_type{});
    }
  };
  if (params.depth_radius == 4 && channels % 4 == 0) {
    with_pack(std::integral_constant<int, 4>{});
  } else {
    with_pack(std::integral_constant<int, 1>{});
  }
}

}  // namespace carillon
