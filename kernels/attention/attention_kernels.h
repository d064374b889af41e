// The arithmetic of attention for one element, on CPU and GPU. The file also has the CUDA kernels that run between the
// matrix products (attention_products_cuda.cu).
//
//   forward    AttentionWeights: P from S
//   backward   AttentionScoreGradients: P and dS from S and dP
//
// `lanes` threads process a row of scores together. At any time, these threads read and write neighbouring columns. All
// sums have a fixed order, so equal inputs give equal bits.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/elementwise/exp_below_zero.h"
#include "kernels/shared/block_kernel.h"
#include "src/core/bf16.h"

namespace carillon {

/// The numbers that forward keeps for each row of scores, for backward.
struct AttentionRow {
  float largest;      ///< largest score of the row, not scaled
  float inverse_sum;  ///< 1 / sum of the row's weights
};

/// Returns the weight of a score: exp((score - largest) * scale), or 0 if the weight is below exp(-86). Returns NaN if
/// the difference of the scores is not finite.
CARILLON_HOST_DEVICE inline float attention_weight(float score, float largest, float scale) {
  const float x = (score - largest) * scale;
  return (x < -86.0f ? 0.0f : exp_below_zero(x)) + (x - x);
}

/// The scores of one head for some samples, as rows [samples, tokens, row_stride]. A row has `tokens` columns.
/// AttentionWeights and AttentionScoreGradients overwrite the scores.
struct AttentionRows {
  static constexpr int threads = 256;
  static constexpr int lanes = 32;
  static constexpr int rows_per_block = threads / lanes;

  float* scores = nullptr;
  AttentionRow* kept = nullptr;  ///< receives one entry per row; null if backward never runs
  std::int64_t kept_stride = 0;  ///< number of entries of one sample in `kept`
  std::int64_t samples = 0, tokens = 0, row_stride = 0;
  float scale = 1.0f;

  int blocks() const { return static_cast<int>((samples * tokens + rows_per_block - 1) / rows_per_block); }

 protected:
  CARILLON_HOST_DEVICE static std::int64_t row_of(int block, int thread) {
    return static_cast<std::int64_t>(block) * rows_per_block + thread / lanes;
  }
  CARILLON_HOST_DEVICE bool has(std::int64_t row) const { return row < samples * tokens; }
  CARILLON_HOST_DEVICE AttentionRow& kept_of(std::int64_t row) const {
    return kept[row / tokens * kept_stride + row % tokens];
  }
  /// Calls body(index of an element) for the thread's elements of the row.
  template <typename Body>
  CARILLON_HOST_DEVICE void for_elements(std::int64_t row, int thread, const Body& body) const {
    for (std::int64_t column = thread % lanes; column < tokens; column += lanes) body(row * row_stride + column);
  }
  /// Returns the sum of `sums` over the lanes that process the thread's row.
  CARILLON_HOST_DEVICE static float total(const float (&sums)[threads], int thread) {
    const int first = thread - thread % lanes;
    float sum = sums[first];
    for (int i = 1; i < lanes; ++i) sum += sums[first + i];
    return sum;
  }
};

template <typename T>
struct AttentionWeights : AttentionRows {
  static constexpr int phases = 3;
  struct Shared {
    float largest[threads], sums[threads];
  };

  T* weights = nullptr;  ///< receives P, with the same layout as the scores

  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared& shared, int block, int thread) const {
    const std::int64_t row = row_of(block, thread);
    if (!has(row)) return;
    if constexpr (phase == 0) {
      float largest = -INFINITY;
      for_elements(row, thread, [&](std::int64_t at) { largest = larger(largest, scores[at]); });
      shared.largest[thread] = largest;
    } else if constexpr (phase == 1) {
      const float largest = largest_of(shared, thread);
      float sum = 0.0f;
      for_elements(row, thread, [&](std::int64_t at) {
        scores[at] = attention_weight(scores[at], largest, scale);
        sum += scores[at];
      });
      shared.sums[thread] = sum;
    } else {
      const float inverse_sum = 1.0f / total(shared.sums, thread);
      for_elements(row, thread, [&](std::int64_t at) { weights[at] = stored_as<T>(scores[at] * inverse_sum); });
      if (kept != nullptr && thread % lanes == 0) kept_of(row) = {largest_of(shared, thread), inverse_sum};
    }
  }

 private:
  CARILLON_HOST_DEVICE static float larger(float a, float b) { return b > a ? b : a; }
  /// Returns the largest score of the row that the thread processes.
  CARILLON_HOST_DEVICE static float largest_of(const Shared& shared, int thread) {
    const int first = thread - thread % lanes;
    float largest = shared.largest[first];
    for (int i = 1; i < lanes; ++i) largest = larger(largest, shared.largest[first + i]);
    return largest;
  }
};

template <typename T>
struct AttentionScoreGradients : AttentionRows {
  static constexpr int phases = 2;
  struct Shared {
    float sums[threads];
  };

  const float* weight_gradients = nullptr;     ///< dP, with the same layout as the scores
  T *weights = nullptr, *gradients = nullptr;  ///< receives P and dS / sqrt(head size), with the same layout as the
                                               ///< scores

  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared& shared, int block, int thread) const {
    const std::int64_t row = row_of(block, thread);
    if (!has(row)) return;
    if constexpr (phase == 0) {
      const AttentionRow of = kept_of(row);
      float sum = 0.0f;
      for_elements(row, thread, [&](std::int64_t at) {
        scores[at] = attention_weight(scores[at], of.largest, scale) * of.inverse_sum;
        sum += scores[at] * weight_gradients[at];
      });
      shared.sums[thread] = sum;
    } else {
      const float d = total(shared.sums, thread);
      for_elements(row, thread, [&](std::int64_t at) {
        weights[at] = stored_as<T>(scores[at]);
        gradients[at] = stored_as<T>(scores[at] * (weight_gradients[at] - d) * scale);
      });
    }
  }
};

}  // namespace carillon
