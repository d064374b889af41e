// Row operations of attention on a CPU, in float32: they turn scores into weights, and the gradient of the weights into
// the gradient of the scores.
#pragma once

#include <cstdint>

#include "carillon/core/parallel.h"
#include "kernels/attention/attention_kernels.h"

namespace carillon {

inline constexpr std::int64_t score_lanes = 16;  ///< rows are padded to a multiple of this number of floats

/// A row-major matrix in the workspace, aligned to 64 bytes. The distance between two rows is an odd number of cache
/// lines, so that the rows of a block use all sets of the first-level cache.
struct PaddedMatrix {
  float* data = nullptr;
  std::int64_t stride = 0;  ///< number of floats from one row to the next

  static std::int64_t stride_of(std::int64_t columns) { return (ceil_divide(columns, score_lanes) | 1) * score_lanes; }
  float* at(std::int64_t i) const { return data + i * stride; }
};

/// Replaces each score q k^T by its weight, exp((score - largest score of the row) * scale), and writes `kept` [rows].
/// The padding becomes zero.
void weigh_scores(const PaddedMatrix& scores, std::int64_t rows, std::int64_t columns, float scale, AttentionRow* kept);

/// Replaces `scores` by P. Replaces `gradients`, which holds dP, by the gradient of the scores. The values in the
/// padding are undefined afterwards.
void differentiate_weights(const PaddedMatrix& scores, const PaddedMatrix& gradients, std::int64_t rows,
                           std::int64_t columns, float scale, const AttentionRow* kept);

/// Multiplies the row: row *= factor.
void multiply_row(float* row, std::int64_t columns, float factor);

}  // namespace carillon
