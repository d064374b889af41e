// GPU kernels of --clip-norm (gradient_norm.h): the sum of squares of each chunk of the gradient, then the factor.
#pragma once

#include "src/optim/clipped_norm.h"
#include "src/optim/norm_kernels.h"

namespace carillon {

/// square_sums[chunk] = sum of |g + l2_factor * w|^2 over the chunk, if the step trains its variable, in double
/// precision and a fixed order. One block per chunk.
struct GradientSquares {
  static constexpr int threads = FlatShare::threads;
  static constexpr int phases = 9;  // after the first phase, 2^8 threads fold in 8 phases
  static_assert(1 << (phases - 1) == threads);
  struct Shared {
    double sums[threads];
  };

  const NormChunk* chunks = nullptr;  ///< [chunk_count]
  int chunk_count = 0;
  const float *gradients = nullptr, *values = nullptr;  ///< flat
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

/// Computes the step's norm and factor from the chunks' sums. One block.
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
