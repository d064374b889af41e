// The kernels of layer_norm on a GPU.
//
//   forward    LayerNormForward
//   backward   LayerNormGradient; ColumnSums<LayerNormGradients>, CombineColumnSums
//
// `lanes` threads process a row. A thread has packs of n neighbouring channels, and reads them again in each phase:
// then they are in the first-level cache. Each thread adds the lanes' sums of its row in the same order.
#pragma once

#include <cstdint>

#include "kernels/layer_norm/layer_norm_math.h"
#include "kernels/shared/column_sums.h"

namespace carillon {

/// The division of [rows, channels] into blocks.
struct LayerNormCut {
  static constexpr int threads = 256;
  static constexpr int max_lanes = 32;

  std::int64_t rows = 0, channels = 0;
  int lanes = 1;  ///< at most max_lanes, divides `threads`

  CARILLON_HOST_DEVICE int rows_per_block() const { return threads / lanes; }
  int blocks() const { return static_cast<int>((rows + rows_per_block() - 1) / rows_per_block()); }
  CARILLON_HOST_DEVICE std::int64_t row_of(int block, int thread) const {
    return static_cast<std::int64_t>(block) * rows_per_block() + thread / lanes;
  }
};

inline LayerNormCut layer_norm_cut(std::int64_t rows, std::int64_t channels, int pack_size) {
  LayerNormCut cut{.rows = rows, .channels = channels};
  while (cut.lanes < cut.max_lanes && cut.lanes * pack_size < channels) cut.lanes *= 2;
  return cut;
}

/// The common part of both kernels that process rows.
template <typename T, int n>
struct LayerNormRows {
  static constexpr int threads = LayerNormCut::threads;

  LayerNormCut cut;
  const T* x = nullptr;          ///< [rows, channels]
  const float* gamma = nullptr;  ///< [channels]

  int blocks() const { return cut.blocks(); }

 protected:
  /// Calls body(channel) for the first channel of each pack of the thread.
  template <typename Body>
  CARILLON_HOST_DEVICE void for_packs(int thread, const Body& body) const {
    for (std::int64_t c = thread % cut.lanes * n; c < cut.channels; c += cut.lanes * n) body(c);
  }
  /// The sum over the lanes of the thread's row.
  CARILLON_HOST_DEVICE float total(const float (&sums)[threads], int thread) const {
    const int first = thread - thread % cut.lanes;
    float sum = sums[first];
    for (int i = 1; i < cut.lanes; ++i) sum += sums[first + i];
    return sum;
  }
  CARILLON_HOST_DEVICE float size() const { return static_cast<float>(cut.channels); }
};

template <typename T, int n>
struct LayerNormForward : LayerNormRows<T, n> {
  using Rows = LayerNormRows<T, n>;
  static constexpr int phases = 3;
  struct Shared {
    float sums[Rows::threads], distances[Rows::threads], squares[Rows::threads];
  };

  const float* beta = nullptr;  ///< [channels]
  float epsilon = 0.0f;
  RowNorm* norms = nullptr;  ///< [rows], or null if they are not kept
  T* y = nullptr;            ///< [rows, channels]

  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared& shared, int block, int thread) const {
    const std::int64_t row = this->cut.row_of(block, thread);
    if (row >= this->cut.rows) return;
    if constexpr (phase == 0) add_values(shared, row, thread);
    if constexpr (phase == 1) add_distances(shared, row, thread);
    if constexpr (phase == 2) normalise(shared, row, thread);
  }

 private:
  CARILLON_HOST_DEVICE void add_values(Shared& shared, std::int64_t row, int thread) const {
    float sum = 0.0f;
    this->for_packs(thread, [&](std::int64_t c) {
      const Pack<float, n> values = load_floats<n>(this->x + row * this->cut.channels + c);
      for (int i = 0; i < n; ++i) sum += values.at[i];
    });
    shared.sums[thread] = sum;
  }

  CARILLON_HOST_DEVICE void add_distances(Shared& shared, std::int64_t row, int thread) const {
    const float centre = this->total(shared.sums, thread) / this->size();
    float distances = 0.0f, squares = 0.0f;
    this->for_packs(thread, [&](std::int64_t c) {
      const Pack<float, n> values = load_floats<n>(this->x + row * this->cut.channels + c);
      for (int i = 0; i < n; ++i) {
        const float distance = values.at[i] - centre;
        distances += distance;
        squares += distance * distance;
      }
    });
    shared.distances[thread] = distances;
    shared.squares[thread] = squares;
  }

  CARILLON_HOST_DEVICE void normalise(const Shared& shared, std::int64_t row, int thread) const {
    const RowNorm of = row_norm(this->total(shared.sums, thread) / this->size(), this->total(shared.distances, thread),
                                this->total(shared.squares, thread), this->size(), epsilon);
    if (norms != nullptr && thread % this->cut.lanes == 0) norms[row] = of;
    this->for_packs(thread, [&](std::int64_t c) {
      Pack<float, n> values = load_floats<n>(this->x + row * this->cut.channels + c);
      const Pack<float, n> scale = load<n>(this->gamma + c), offset = load<n>(beta + c);
      for (int i = 0; i < n; ++i) values.at[i] = of.at(values.at[i] - of.centre) * scale.at[i] + offset.at[i];
      store_floats(values, y + row * this->cut.channels + c);
    });
  }
};

/// Computes dx.
template <typename T, int n>
struct LayerNormGradient : LayerNormRows<T, n> {
  using Rows = LayerNormRows<T, n>;
  static constexpr int phases = 2;
  struct Shared {
    float means[Rows::threads], slopes[Rows::threads];
  };

  const RowNorm* norms = nullptr;  ///< [rows]
  const T* dy = nullptr;           ///< [rows, channels]
  T* dx = nullptr;                 ///< [rows, channels]

  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared& shared, int block, int thread) const {
    const std::int64_t row = this->cut.row_of(block, thread);
    if (row >= this->cut.rows) return;
    if constexpr (phase == 0) add_gradients(shared, row, thread);
    if constexpr (phase == 1) find_gradients(shared, row, thread);
  }

 private:
  /// Calls body(channel, xhat, g) for each pack of the thread.
  template <typename Body>
  CARILLON_HOST_DEVICE void for_gradients(std::int64_t row, int thread, const RowNorm& of, const Body& body) const {
    this->for_packs(thread, [&](std::int64_t c) {
      Pack<float, n> hat = load_floats<n>(this->x + row * this->cut.channels + c);
      Pack<float, n> gradient = load_floats<n>(dy + row * this->cut.channels + c);
      const Pack<float, n> scale = load<n>(this->gamma + c);
      for (int i = 0; i < n; ++i) {
        hat.at[i] = of.at(hat.at[i] - of.centre);
        gradient.at[i] *= scale.at[i];
      }
      body(c, hat, gradient);
    });
  }

  CARILLON_HOST_DEVICE void add_gradients(Shared& shared, std::int64_t row, int thread) const {
    float mean = 0.0f, slope = 0.0f;
    for_gradients(row, thread, norms[row],
                  [&](std::int64_t, const Pack<float, n>& hat, const Pack<float, n>& gradient) {
                    for (int i = 0; i < n; ++i) {
                      mean += gradient.at[i];
                      slope += gradient.at[i] * hat.at[i];
                    }
                  });
    shared.means[thread] = mean;
    shared.slopes[thread] = slope;
  }

  CARILLON_HOST_DEVICE void find_gradients(const Shared& shared, std::int64_t row, int thread) const {
    const RowNorm of = norms[row];
    const RowGradient rest{this->total(shared.means, thread) / this->size(),
                           this->total(shared.slopes, thread) / this->size()};
    for_gradients(row, thread, of, [&](std::int64_t c, const Pack<float, n>& hat, const Pack<float, n>& gradient) {
      Pack<float, n> result;
      for (int i = 0; i < n; ++i) {
        result.at[i] = (gradient.at[i] - rest.mean - hat.at[i] * rest.slope) * of.inverse;
      }
      store_floats(result, dx + row * this->cut.channels + c);
    });
  }
};

/// Terms of ColumnSums. first: sum of dy, second: sum of dy xhat.
template <typename T, int n>
struct LayerNormGradients {
  const T *x = nullptr, *dy = nullptr;  ///< [rows, columns]
  const RowNorm* norms = nullptr;       ///< [rows]
  std::uint32_t columns = 1;

  struct Fixed {};
  struct Row {
    Pack<float, n> x, dy;
    RowNorm norm;
  };

  CARILLON_HOST_DEVICE Fixed fixed(std::int64_t, std::int64_t) const { return {}; }
  CARILLON_HOST_DEVICE Row row(std::int64_t at) const {
    return {load_floats<n>(x + at), load_floats<n>(dy + at), norms[static_cast<std::uint32_t>(at) / columns]};
  }
  CARILLON_HOST_DEVICE void add(const Fixed&, const Row& values, int i, float& first, float& second) const {
    first += values.dy.at[i];
    second += values.dy.at[i] * values.norm.at(values.x.at[i] - values.norm.centre);
  }
  CARILLON_HOST_DEVICE void finish(std::int64_t, std::int64_t, double&, double&) const {}
};

}  // namespace carillon
