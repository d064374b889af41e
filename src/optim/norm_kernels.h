// GPU kernels that compute norms. The kernels run before UpdateKernel. They divide the flat arrays into chunks and sum
// the squares of each chunk. For a NormedRule or a MatrixRule, they compute the norms and the ratio of each variable.
// For --clip-norm, they compute the norm of the gradient (GradientNorm).
#pragma once

#include <algorithm>
#include <vector>

#include "src/optim/update_kernels.h"

namespace carillon {

/// Consecutive elements of one variable in the flat arrays, including the padding after the variable.
struct NormChunk {
  static constexpr std::size_t max_count = std::size_t{8} * FlatShare::threads * FlatShare::pack;
  std::uint64_t first = 0;
  std::uint32_t count = 0;  ///< a multiple of line_floats
  std::uint32_t variable = 0;
};

struct ChunkRange {
  std::uint32_t first = 0, last = 0;
};

struct NormChunks {
  std::vector<NormChunk> chunks;
  std::vector<ChunkRange> of_variable;  ///< [variable]: indices into `chunks`
};

/// Returns the chunks of the `wanted` variables. If `wanted` is empty, returns the chunks of all variables.
inline NormChunks norm_chunks(const ParameterLayout& layout, const std::vector<bool>& wanted = {}) {
  NormChunks all;
  all.of_variable.resize(layout.order().size());
  for (const int variable : layout.order()) {
    if (!wanted.empty() && !wanted[static_cast<std::size_t>(variable)]) continue;
    const std::size_t begin = layout.offset(variable);
    const std::size_t end = begin + (layout.count(variable) + line_floats - 1) / line_floats * line_floats;
    ChunkRange& range = all.of_variable[static_cast<std::size_t>(variable)];
    range.first = static_cast<std::uint32_t>(all.chunks.size());
    for (std::size_t first = begin; first < end; first += NormChunk::max_count) {
      const std::size_t count = std::min(NormChunk::max_count, end - first);
      all.chunks.push_back({first, static_cast<std::uint32_t>(count), static_cast<std::uint32_t>(variable)});
    }
    range.last = static_cast<std::uint32_t>(all.chunks.size());
  }
  return all;
}

/// Sets sums[chunk] to two sums over the chunk: the squares of the values, and the squares of the directions (Squares).
/// Both sums are 0 if the step does not update the chunk's variable. The kernel adds in double precision and in a fixed
/// order. Rule::direction also updates the slots. One block processes one chunk.
template <UpdateRule Rule>
struct NormKernel {
  static constexpr int threads = FlatShare::threads;
  static constexpr int phases = 9;  // one phase of sums per thread, then 8 phases that fold the sums of 2^8 threads
  static_assert(1 << (phases - 1) == threads);
  static constexpr int slot_count = static_cast<int>(Rule::slots.size());

  struct Shared {
    double values[threads], directions[threads];
  };

  const NormChunk* chunks = nullptr;  ///< [chunk_count]
  int chunk_count = 0;
  const float *gradients = nullptr, *values = nullptr;  ///< flat arrays
  float* slots[slot_count] = {};
  const UpdateFactors* of_variable = nullptr;
  const ClippedNorm* clipped = nullptr;  ///< null: the gradient is not clipped
  StepTable table;
  StepEnd end;
  Squares* sums = nullptr;      ///< [chunk_count]
  float* directions = nullptr;  ///< flat array; null: the directions are not stored

  int blocks() const { return chunk_count; }

  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared& shared, int block, int thread) const {
    if constexpr (phase == 0) {
      const Squares own = squares_of_thread(chunks[block], thread);
      shared.values[thread] = own.value;
      shared.directions[thread] = own.direction;
    } else {
      fold(shared.values, thread, threads >> phase);
      fold(shared.directions, thread, threads >> phase);
      if (phase == phases - 1 && thread == 0) sums[block] = {shared.values[0], shared.directions[0]};
    }
  }

  CARILLON_HOST_DEVICE Squares squares_of_thread(const NormChunk& chunk, int thread) const {
    constexpr int n = FlatShare::pack;
    UpdateFactors factors = of_variable[chunk.variable];
    const float clip = clip_factor(clipped);
    factors.l2 *= clip;
    const StepScalars of_step = table.header().scalars, scalars = scalars_of<Rule>(of_step, factors);
    Squares squares;
    if (!end.allows_update() || !factors.trains_at(of_step.step)) return squares;
    const std::size_t last = chunk.first + chunk.count;
    for (std::size_t i = chunk.first + static_cast<std::size_t>(thread) * n; i < last; i += threads * n) {
      const Pack<float, n> gradient = load<n>(gradients + i), value = load<n>(values + i);
      Pack<float, n> kept[slot_count], found;
      for (int s = 0; s < slot_count; ++s) kept[s] = load<n>(slots[s] + i);
      for (int k = 0; k < n; ++k) {
        float of_element[slot_count];
        for (int s = 0; s < slot_count; ++s) of_element[s] = kept[s].at[k];
        const float mean = rounded_product(end.mean(gradient.at[k]), clip);
        found.at[k] = Rule::direction(scalars, factors, mean, value.at[k], of_element);
        squares.add(value.at[k], found.at[k]);
        for (int s = 0; s < slot_count; ++s) kept[s].at[k] = of_element[s];
      }
      for (int s = 0; s < slot_count; ++s) store(kept[s], slots[s] + i);
      if (directions != nullptr) store(found, directions + i);
    }
    return squares;
  }
};

CARILLON_HOST_DEVICE inline Squares sum_of(const ChunkRange& range, const Squares* sums) {
  Squares squares;
  for (std::uint32_t chunk = range.first; chunk < range.last; ++chunk) {
    squares.value += sums[chunk].value;
    squares.direction += sums[chunk].direction;
  }
  return squares;
}

/// Sets ratios[variable] to the result of ratio_of for the variable. One thread processes one variable.
template <NormedRule Rule>
struct RatioOfVariable {
  const ChunkRange* ranges = nullptr;          ///< [variable]
  const Squares* sums = nullptr;               ///< [chunk]
  const UpdateFactors* of_variable = nullptr;  ///< [variable]
  StepTable table;
  float* ratios = nullptr;  ///< [variable]

  CARILLON_HOST_DEVICE void operator()(std::int64_t variable) const {
    const Squares squares = sum_of(ranges[variable], sums);
    ratios[variable] = ratio_of<Rule>(table.header().scalars, of_variable[variable], squares);
  }
};

/// Sets square_sums[chunk] to the sum of |g + l2_factor * w|^2 over the chunk, or to 0 if the step does not train the
/// chunk's variable. The kernel adds in double precision and in a fixed order. One block processes one chunk.
struct GradientSquares {
  static constexpr int threads = FlatShare::threads;
  static constexpr int phases = 9;  // one phase of sums per thread, then 8 phases that fold the sums of 2^8 threads
  static_assert(1 << (phases - 1) == threads);
  struct Shared {
    double sums[threads];
  };

  const NormChunk* chunks = nullptr;  ///< [chunk_count]
  int chunk_count = 0;
  const float *gradients = nullptr, *values = nullptr;  ///< flat arrays
  const UpdateFactors* of_variable = nullptr;
  StepTable table;
  StepEnd end;
  double* square_sums = nullptr;  ///< [chunk_count]

  int blocks() const { return chunk_count; }

  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared& shared, int block, int thread) const {
    if constexpr (phase == 0) {
      shared.sums[thread] = sum_of_thread(chunks[block], thread);
    } else {
      fold(shared.sums, thread, threads >> phase);
      if (phase == phases - 1 && thread == 0) square_sums[block] = shared.sums[0];
    }
  }

  CARILLON_HOST_DEVICE double sum_of_thread(const NormChunk& chunk, int thread) const {
    constexpr int n = FlatShare::pack;
    const UpdateFactors factors = of_variable[chunk.variable];
    double sum = 0.0;
    if (!factors.trains_at(table.header().scalars.step)) return sum;
    const std::size_t last = chunk.first + chunk.count;
    for (std::size_t i = chunk.first + static_cast<std::size_t>(thread) * n; i < last; i += threads * n) {
      const Pack<float, n> gradient = load<n>(gradients + i), value = load<n>(values + i);
      for (int k = 0; k < n; ++k) {
        const double total = std::fma(factors.l2, value.at[k], end.mean(gradient.at[k]));
        sum = std::fma(total, total, sum);
      }
    }
    return sum;
  }
};

/// Computes the norm of the step's gradient from the sums of GradientSquares. Also computes the factor that clips the
/// gradient. Uses one block.
struct ClipGradient {
  static constexpr int threads = FlatShare::threads;
  static constexpr int phases = 9;
  static_assert(1 << (phases - 1) == threads);
  struct Shared {
    double sums[threads];
  };

  const double* square_sums = nullptr;  ///< [chunk_count]
  int chunk_count = 0;
  double limit = 0.0;  ///< OptimizerSettings::clip_norm
  ClippedNorm* clipped = nullptr;

  int blocks() const { return 1; }

  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared& shared, int /*block*/, int thread) const {
    if constexpr (phase == 0) {
      double sum = 0.0;
      for (int chunk = thread; chunk < chunk_count; chunk += threads) sum += square_sums[chunk];
      shared.sums[thread] = sum;
    } else {
      fold(shared.sums, thread, threads >> phase);
      if (phase == phases - 1 && thread == 0) *clipped = clipped_norm(shared.sums[0], limit);
    }
  }
};

}  // namespace carillon
