// GPU kernels of the Newton-Schulz iteration (newton_schulz.h), apart from its matrix products.
#pragma once

#include <cmath>

#include "src/optim/newton_schulz.h"
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

/// Multiplies every element of the chunks by its variable's factor. One block per chunk.
struct ScaleChunks {
  using Shared = NoShared;
  static constexpr int threads = FlatShare::threads;
  static constexpr int phases = 1;

  const NormChunk* chunks = nullptr;  ///< [chunk_count]
  int chunk_count = 0;
  const float* factors = nullptr;  ///< [variable]
  float* values = nullptr;         ///< flat

  int blocks() const { return chunk_count; }
  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared&, int block, int thread) const {
    const NormChunk& chunk = chunks[block];
    for (std::size_t i = static_cast<std::size_t>(thread); i < chunk.count; i += threads) {
      values[chunk.first + i] *= factors[chunk.variable];
    }
  }
};

/// y[i] = of_x * x[i] + of_y * y[i]
struct AddScaled {
  float of_x = 0.0f, of_y = 0.0f;
  const float* x = nullptr;
  float* y = nullptr;

  CARILLON_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = std::fma(of_x, x[i], of_y * y[i]); }
};

}  // namespace carillon
