// The arithmetic of layer_norm for one row, on CPU and GPU, and the kernels on a GPU.
//
//   forward    LayerNormForward
//   backward   LayerNormBackward (layer_norm_backward_kernel.h), CombineColumnSums; for rows that do not fill all lanes
//              LayerNormGradient, ColumnSums<LayerNormGradients>, CombineColumnSums
//
// `lanes` threads process a row. A thread has `packs` packs of n neighbouring channels, and reads the packs again in
// each phase. From the second phase on, the packs are in the first-level cache, which is several times faster than
// memory. Each thread adds the lanes' sums of its row in the same order.
#pragma once

#include <cmath>
#include <cstdint>

#include "carillon/core/host_device.h"
#include "kernels/shared/column_sums.h"

namespace carillon {

/// The normalisation of a row, which is kept from forward to backward. `centre` is the rounded mean, and `shift`
/// corrects the rounding.
struct RowNorm {
  float centre, inverse, shift;

  /// Returns xhat of an element. `from_centre`: the element minus the centre. T: float, or a vector of floats.
  template <typename T>
  CARILLON_HOST_DEVICE T at(T from_centre) const {
    return from_centre * inverse + shift;
  }
};

/// Computes the normalisation of `channels` elements from two sums: the sum of their distances to `centre`, and the sum
/// of the squares of these distances.
CARILLON_HOST_DEVICE inline RowNorm row_norm(float centre, float distances, float squares, float channels,
                                             float epsilon) {
  const float rest = distances / channels, variance = squares / channels - rest * rest;
  const float inverse = 1.0f / std::sqrt((variance < 0.0f ? 0.0f : variance) + epsilon);  // NaN stays NaN
  return {centre, inverse, -rest * inverse};
}

/// The means of g and of g xhat over a row (layer_norm.h).
struct RowGradient {
  float mean, slope;
};

/// The division of [rows, channels] into blocks.
struct LayerNormCut {
  static constexpr int threads = 256;
  static constexpr int max_lanes = 64;
  static constexpr int max_packs = 3;  ///< largest number of packs of a lane, if max_lanes lanes are enough

  std::int64_t rows = 0, channels = 0;
  int lanes = 1;  ///< at most max_lanes; divides `threads`

  CARILLON_HOST_DEVICE int rows_per_block() const { return threads / lanes; }
  int blocks() const { return static_cast<int>((rows + rows_per_block() - 1) / rows_per_block()); }
  CARILLON_HOST_DEVICE std::int64_t row_of(int block, int thread) const {
    return static_cast<std::int64_t>(block) * rows_per_block() + thread / lanes;
  }
};

/// Uses as few lanes as max_packs allows. For 96, 192, 384 and 768 channels in bf16, a lane then has 3 packs, and no
/// lane is idle.
inline LayerNormCut layer_norm_cut(std::int64_t rows, std::int64_t channels, int pack_size) {
  LayerNormCut cut{.rows = rows, .channels = channels};
  while (cut.lanes < cut.max_lanes && cut.lanes * cut.max_packs * pack_size < channels) cut.lanes *= 2;
  return cut;
}

/// Calls body(std::integral_constant<int, packs>{}). Each value of `packs` compiles another kernel. Therefore `packs`
/// is 2 or 3 only for rows that consist of the largest packs and fill all lanes. For all other rows, `packs` is 0.
template <typename T, int n, typename Body>
void with_layer_norm_packs(const LayerNormCut& cut, const Body& body) {
  if constexpr (n * sizeof(T) == pack_bytes) {
    if (cut.channels == cut.lanes * 2 * n) return body(std::integral_constant<int, 2>{});
    if (cut.channels == cut.lanes * 3 * n) return body(std::integral_constant<int, 3>{});
  }
  body(std::integral_constant<int, 0>{});
}

/// The parts that are common to all kernels that process rows. packs: number of packs of each lane, or 0 for any
/// number. If the number is fixed, a lane loads all its packs together.
template <typename T, int n, int packs>
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
    const int first = thread % cut.lanes * n, step = cut.lanes * n;
    if constexpr (packs == 0) {
      for (std::int64_t c = first; c < cut.channels; c += step) body(c);
    } else {
      CARILLON_UNROLL
      for (int k = 0; k < packs; ++k) body(std::int64_t{first + k * step});
    }
  }
  /// Returns the sum of `sums` over the lanes of the thread's row. If there are four lanes or more, first computes four
  /// partial sums.
  CARILLON_HOST_DEVICE float total(const float (&sums)[threads], int thread) const {
    const float* const row = sums + (thread - thread % cut.lanes);
    if (cut.lanes < 4) return cut.lanes == 1 ? row[0] : row[0] + row[1];
    Pack<float, 4> parts = load<4>(row);
    for (int i = 4; i < cut.lanes; i += 4) {
      const Pack<float, 4> more = load<4>(row + i);
      for (int k = 0; k < 4; ++k) parts.at[k] += more.at[k];
    }
    return (parts.at[0] + parts.at[1]) + (parts.at[2] + parts.at[3]);
  }
  CARILLON_HOST_DEVICE float size() const { return static_cast<float>(cut.channels); }
};

template <typename T, int n, int packs>
struct LayerNormForward : LayerNormRows<T, n, packs> {
  using Rows = LayerNormRows<T, n, packs>;
  static constexpr int phases = 3;
  struct Shared {
    alignas(16) float sums[Rows::threads], distances[Rows::threads], squares[Rows::threads];
  };

  const float* beta = nullptr;  ///< [channels]
  float epsilon = 0.0f;
  RowNorm* norms = nullptr;  ///< [rows]; null: the normalisations are not kept
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

/// Computes dx. If `adds` is true, adds the result to dx.
template <typename T, int n>
struct LayerNormGradient : LayerNormRows<T, n, 0> {
  using Rows = LayerNormRows<T, n, 0>;
  static constexpr int phases = 2;
  struct Shared {
    alignas(16) float means[Rows::threads], slopes[Rows::threads];
  };

  const RowNorm* norms = nullptr;  ///< [rows]
  const T* dy = nullptr;           ///< [rows, channels]
  T* dx = nullptr;                 ///< [rows, channels]
  bool adds = false;               ///< true: the results are added to dx

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
      T* const to = dx + row * this->cut.channels + c;
      if (adds) {
        const Pack<float, n> before = load_floats<n>(to);
        for (int i = 0; i < n; ++i) result.at[i] += before.at[i];
      }
      store_floats(result, to);
    });
  }
};

/// The terms of ColumnSums. first: sum of dy; second: sum of dy xhat.
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
