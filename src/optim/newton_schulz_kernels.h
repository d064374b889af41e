// GPU kernels of the Newton-Schulz iteration (newton_schulz.h), apart from its matrix products.
#pragma once

#include <cmath>

#include "kernels/shared/pack.h"
#include "src/optim/newton_schulz.h"
#include "src/optim/newton_schulz_cuda.h"
#include "src/optim/norm_kernels.h"

namespace carillon {

/// Factors of an orthogonalised variable from its norms, one thread per variable.
struct MatrixOfVariable {
  const ChunkRange* ranges = nullptr;          ///< [variable]
  const Squares* sums = nullptr;               ///< [chunk]
  const UpdateFactors* of_variable = nullptr;  ///< [variable]
  StepTable table;
  float* ratios = nullptr;                ///< [variable]: UpdateFactors::kept
  float* inverse_norms = nullptr;         ///< [variable]: 1 / (norm of the direction); 0 if the norm is 0
  const std::int64_t* columns = nullptr;  ///< [variable]; null: OptimizerSettings::muon_normalizes is false

  CARILLON_HOST_DEVICE void operator()(std::int64_t variable) const {
    const Squares squares = sum_of(ranges[variable], sums);
    ratios[variable] = columns == nullptr ? 1.0f : normalizing_factor(columns[variable], squares);
    const double norm = std::sqrt(squares.direction);
    inverse_norms[variable] = norm > 0.0 ? static_cast<float>(1.0 / (norm + NewtonSchulzForm::epsilon)) : 0.0f;
  }
};

/// to[stacked] = factor of the variable * from[flat], gaps included. One block per chunk.
template <typename T>
struct StackScaled {
  using Shared = NoShared;
  static constexpr int threads = FlatShare::threads;
  static constexpr int phases = 1;

  const MatrixChunk* chunks = nullptr;  ///< [chunk_count]
  int chunk_count = 0;
  const float* factors = nullptr;  ///< [variable]
  const float* from = nullptr;
  T* to = nullptr;

  int blocks() const { return chunk_count; }
  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared&, int block, int thread) const {
    constexpr int n = FlatShare::pack;
    const MatrixChunk chunk = chunks[block];
    const float factor = factors[chunk.variable];
    for (std::uint32_t i = static_cast<std::uint32_t>(thread) * n; i < chunk.padded; i += threads * n) {
      Pack<float, n> values = load<n>(from + chunk.flat + i);
      for (int k = 0; k < n; ++k) values.at[k] *= factor;
      store_floats(values, to + chunk.stacked + i);
    }
  }
};

/// to[flat] = from[stacked], and 0 in the gaps. One block per chunk.
template <typename T>
struct Unstack {
  using Shared = NoShared;
  static constexpr int threads = FlatShare::threads;
  static constexpr int phases = 1;

  const MatrixChunk* chunks = nullptr;  ///< [chunk_count]
  int chunk_count = 0;
  const T* from = nullptr;
  float* to = nullptr;

  int blocks() const { return chunk_count; }
  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared&, int block, int thread) const {
    constexpr int n = FlatShare::pack;
    const MatrixChunk chunk = chunks[block];
    for (std::uint32_t i = static_cast<std::uint32_t>(thread) * n; i < chunk.padded; i += threads * n) {
      Pack<float, n> values = load_floats<n>(from + chunk.stacked + i);
      for (std::uint32_t k = 0; k < n; ++k) {
        if (i + k >= chunk.count) values.at[k] = 0.0f;
      }
      store(values, to + chunk.flat + i);
    }
  }
};

}  // namespace carillon
