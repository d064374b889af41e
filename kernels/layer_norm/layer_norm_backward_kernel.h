// LayerNormBackward: the gradients of layer_norm on a GPU in one kernel, for rows that fill all lanes (layer_norm_cut).
//
// A block processes rows_per_block() rows in a round. A thread reads its packs of x and dy once, and keeps them in
// registers until the sums of the row are known. Over all rounds, the thread keeps the sums of dy and of dy xhat for
// its channels. At the end the block adds its threads' sums. CombineColumnSums adds the blocks' sums. The shapes fix
// the order of each sum.
#pragma once

#include "kernels/layer_norm/layer_norm_kernels.h"

namespace carillon {

/// Returns the division of the rows into blocks, as a ColumnCut for CombineColumnSums. All blocks run at the same time
/// on a GPU with 132 multiprocessors.
inline ColumnCut layer_norm_sums_cut(const LayerNormCut& cut) {
  constexpr int max_blocks = 264;
  const int rounds = (cut.blocks() + max_blocks - 1) / max_blocks;
  return {.rows = cut.rows,
          .columns = cut.channels,
          .rows_per_block = static_cast<std::int64_t>(rounds) * cut.rows_per_block()};
}

template <typename T, int n, int packs>
struct LayerNormBackward : LayerNormRows<T, n, packs> {
  static_assert(packs > 0);
  using Rows = LayerNormRows<T, n, packs>;
  static constexpr int threads = Rows::threads;
  static constexpr int phases = 2;
  static constexpr int last_phases = 2 * packs;
  struct Shared {
    alignas(16) float means[threads], slopes[threads];
    float dbeta[n][threads], dgamma[n][threads];
  };
  struct Private {
    Pack<T, n> x[packs], dy[packs], dx[packs];  ///< dx: used only if the kernel adds to dx
    Pack<float, n> dbeta[packs], dgamma[packs];
    RowNorm norm;
  };

  const RowNorm* norms = nullptr;  ///< [rows]
  const T* dy = nullptr;           ///< [rows, channels]
  T* dx = nullptr;                 ///< [rows, channels]; null: dx is not computed
  bool adds = false;               ///< true: the results are added to dx
  ColumnCut sums_cut;
  ColumnParts parts;  ///< first: dbeta, second: dgamma

  int blocks() const { return sums_cut.row_blocks(); }
  CARILLON_HOST_DEVICE int rounds() const {
    return static_cast<int>(sums_cut.rows_per_block / this->cut.rows_per_block());
  }

  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared& shared, Private& own, int block, int thread, int round) const {
    if constexpr (phase == 0) {
      if (round == 0) clear(own);
    }
    const std::int64_t row = block * sums_cut.rows_per_block + this->cut.row_of(round, thread);
    if (row >= this->cut.rows) return;
    if constexpr (phase == 0) add_gradients(shared, own, row, thread);
    if constexpr (phase == 1) find_gradients(shared, own, row, thread);
  }

  /// Phases 2k and 2k + 1 add the sums of pack k, over all lanes.
  template <int phase>
  CARILLON_HOST_DEVICE void finish(Shared& shared, Private& own, int block, int thread) const {
    constexpr int k = phase / 2;
    if constexpr (phase % 2 == 0) {
      CARILLON_UNROLL
      for (int i = 0; i < n; ++i) {
        shared.dbeta[i][thread] = own.dbeta[k].at[i];
        shared.dgamma[i][thread] = own.dgamma[k].at[i];
      }
    } else {
      const int lanes = this->cut.lanes;
      for (int c = thread; c < lanes * n; c += threads) {
        double dbeta = 0.0, dgamma = 0.0;
        for (int lane = c / n; lane < threads; lane += lanes) {
          dbeta += shared.dbeta[c % n][lane];
          dgamma += shared.dgamma[c % n][lane];
        }
        const std::int64_t at = block * this->cut.channels + k * lanes * n + c;
        parts.first[at] = dbeta;
        parts.second[at] = dgamma;
      }
    }
  }

 private:
  CARILLON_HOST_DEVICE static void clear(Private& own) {
    CARILLON_UNROLL
    for (int k = 0; k < packs; ++k) own.dbeta[k] = own.dgamma[k] = {};
  }

  CARILLON_HOST_DEVICE std::int64_t channel_of(int thread, int k) const {
    return (thread % this->cut.lanes + k * this->cut.lanes) * n;
  }

  CARILLON_HOST_DEVICE void add_gradients(Shared& shared, Private& own, std::int64_t row, int thread) const {
    CARILLON_UNROLL
    for (int k = 0; k < packs; ++k) {
      const std::int64_t at = row * this->cut.channels + channel_of(thread, k);
      own.x[k] = load<n>(this->x + at);
      own.dy[k] = load<n>(dy + at);
      if (adds) own.dx[k] = load<n>(dx + at);
    }
    own.norm = norms[row];
    float mean = 0.0f, slope = 0.0f;
    CARILLON_UNROLL
    for (int k = 0; k < packs; ++k) {
      const Pack<float, n> scale = load<n>(this->gamma + channel_of(thread, k));
      CARILLON_UNROLL
      for (int i = 0; i < n; ++i) {
        const float gradient = to_float(own.dy[k].at[i]) * scale.at[i];
        mean += gradient;
        slope += gradient * hat(own, k, i);
      }
    }
    shared.means[thread] = mean;
    shared.slopes[thread] = slope;
  }

  CARILLON_HOST_DEVICE void find_gradients(const Shared& shared, Private& own, std::int64_t row, int thread) const {
    const RowGradient rest{this->total(shared.means, thread) / this->size(),
                           this->total(shared.slopes, thread) / this->size()};
    CARILLON_UNROLL
    for (int k = 0; k < packs; ++k) {
      forget_floats(own.x[k]);
      forget_floats(own.dy[k]);
      const std::int64_t c = channel_of(thread, k);
      const Pack<float, n> scale = load<n>(this->gamma + c);
      Pack<float, n> result;
      CARILLON_UNROLL
      for (int i = 0; i < n; ++i) {
        const float given = to_float(own.dy[k].at[i]), at = hat(own, k, i);
        own.dbeta[k].at[i] += given;
        own.dgamma[k].at[i] += given * at;
        result.at[i] = (given * scale.at[i] - rest.mean - at * rest.slope) * own.norm.inverse;
        if (adds) result.at[i] += to_float(own.dx[k].at[i]);
      }
      if (dx != nullptr) store_floats(result, dx + row * this->cut.channels + c);
    }
  }

  /// This makes the compiler convert the pack again. Otherwise the compiler would keep both formats in registers, and
  /// only one block would fit on a multiprocessor.
  CARILLON_HOST_DEVICE static void forget_floats([[maybe_unused]] Pack<T, n>& pack) {
#ifdef __CUDA_ARCH__
    auto* const words = reinterpret_cast<std::uint32_t*>(pack.at);
    CARILLON_UNROLL
    for (unsigned i = 0; i < sizeof(pack) / sizeof(std::uint32_t); ++i) asm volatile("" : "+r"(words[i]));
#endif
  }
  /// Returns xhat of element i of the thread's pack k.
  CARILLON_HOST_DEVICE static float hat(const Private& own, int k, int i) {
    return own.norm.at(to_float(own.x[k].at[i]) - own.norm.centre);
  }
};

}  // namespace carillon
