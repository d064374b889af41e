// The kernels of softmax_cross_entropy. Every sum is a tree of a fixed shape, so that equal inputs give equal bits.
#pragma once

#include <cmath>

#include "carillon/core/bf16.h"
#include "carillon/graph/step_inputs.h"
#include "kernels/shared/block_kernel.h"
#include "kernels/shared/mixing.h"

namespace carillon {

/// Of one row of logits, kept from forward to backward.
struct RowExponentials {
  float largest;  ///< max of z
  float sum;      ///< of exp(z - max)
};

/// Rows of logits and how many neighbouring threads share one.
struct LogitRows {
  static constexpr int threads = 256;

  std::int64_t batch = 0, classes = 0;
  int lanes = 1;  ///< a power of two, at most `threads`

  /// With enough lanes that a thread has at most 4 logits, where a block has so many.
  LogitRows(std::int64_t rows, std::int64_t columns) : batch(rows), classes(columns) {
    while (lanes < threads && lanes * 4 < classes) lanes *= 2;
  }
  CARILLON_HOST_DEVICE int blocks() const {
    return static_cast<int>((batch + rows_per_block() - 1) / rows_per_block());
  }
  CARILLON_HOST_DEVICE int rows_per_block() const { return threads / lanes; }
  CARILLON_HOST_DEVICE std::int64_t row_of(int block, int thread) const {
    return static_cast<std::int64_t>(block) * rows_per_block() + thread / lanes;
  }
};

/// The mean loss, and the rows' exponentials. Blocks sum the losses of their rows; the last one to finish sums the
/// blocks' sums. T: float or Bf16.
template <typename T>
struct SoftmaxForwardKernel {
  static constexpr int threads = LogitRows::threads;
  static constexpr int fold_phases = 8;
  static_assert(1 << fold_phases == threads);
  // Each is followed by the phases that fold what it leaves in Shared.
  static constexpr int largest_phase = 0;
  static constexpr int sum_phase = largest_phase + 1 + fold_phases;
  static constexpr int row_phase = sum_phase + 1 + fold_phases;
  static constexpr int block_phase = row_phase + 1 + fold_phases;
  static constexpr int batch_phase = block_phase + 1;
  static constexpr int loss_phase = batch_phase + 1 + fold_phases;
  static constexpr int phases = loss_phase + 1;

  struct Shared {
    double losses[threads];  ///< before that sums of z, where labels are smoothed
    float largest[threads], sums[threads];
    float lambda;
    bool last_block;
  };

  LogitRows rows;
  const T* logits = nullptr;  ///< [batch, classes]
  StepTable table;
  RowExponentials* exponentials = nullptr;  ///< [batch]
  double* block_losses = nullptr;           ///< [blocks]
  std::uint32_t* blocks_done = nullptr;     ///< 0 between launches
  float* loss = nullptr;                    ///< []
  float smoothing = 0.0f;
  MixingParams mixing = {};
  float* lambda = nullptr;  ///< [], the batch's, for the gradient; where labels are mixed

  int blocks() const { return rows.blocks(); }

  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared& shared, int block, int thread) const {
    if constexpr (phase == largest_phase) {
      shared.largest[thread] = largest_of_thread(block, thread);
      if (thread == 0 && mixing.mixes()) shared.lambda = draw_lambda(block);
    } else if constexpr (phase < sum_phase) {
      fold_largest(shared, thread, threads >> (phase - largest_phase));
    } else if constexpr (phase == sum_phase) {
      shared.sums[thread] = sum_of_thread(shared, block, thread);
      if (smoothing > 0.0f) shared.losses[thread] = logits_of_thread(block, thread);
    } else if constexpr (phase < row_phase) {
      fold_row_sums(shared, thread, threads >> (phase - sum_phase));
    } else if constexpr (phase == row_phase) {
      shared.losses[thread] = finish_row(shared, block, thread);
    } else if constexpr (phase < block_phase) {
      fold(shared.losses, thread, threads >> (phase - row_phase));
    } else if constexpr (phase == block_phase) {
      if (thread == 0) shared.last_block = finish_block(shared, block);
    } else if constexpr (phase == batch_phase) {
      if (shared.last_block) shared.losses[thread] = sum_over_blocks(thread);
    } else if constexpr (phase < loss_phase) {
      if (shared.last_block) fold(shared.losses, thread, threads >> (phase - batch_phase));
    } else if (shared.last_block && thread == 0) {
      *loss = static_cast<float>(shared.losses[0] / static_cast<double>(rows.batch));
      *blocks_done = 0;
    }
  }

  CARILLON_HOST_DEVICE float draw_lambda(int block) const {
    const float drawn = draw_mixing(mixing, table.header().first_position).lambda;
    if (block == 0) *lambda = drawn;
    return drawn;
  }

  CARILLON_HOST_DEVICE float largest_of_thread(int block, int thread) const {
    float largest = -INFINITY;
    const std::int64_t row = rows.row_of(block, thread);
    if (row >= rows.batch) return largest;
    for (std::int64_t j = thread % rows.lanes; j < rows.classes; j += rows.lanes) {
      const float z = to_float(logits[row * rows.classes + j]);
      if (z > largest) largest = z;
    }
    return largest;
  }

  CARILLON_HOST_DEVICE void fold_largest(Shared& shared, int thread, int width) const {
    if (width >= rows.lanes || thread % rows.lanes >= width) return;
    float& mine = shared.largest[thread];
    const float other = shared.largest[thread + width];
    if (other > mine) mine = other;
  }

  CARILLON_HOST_DEVICE float sum_of_thread(const Shared& shared, int block, int thread) const {
    float sum = 0.0f;
    const std::int64_t row = rows.row_of(block, thread);
    if (row >= rows.batch) return sum;
    const float largest = shared.largest[thread / rows.lanes * rows.lanes];
    for (std::int64_t j = thread % rows.lanes; j < rows.classes; j += rows.lanes) {
      sum += std::exp(to_float(logits[row * rows.classes + j]) - largest);
    }
    return sum;
  }

  CARILLON_HOST_DEVICE double logits_of_thread(int block, int thread) const {
    double sum = 0.0;
    const std::int64_t row = rows.row_of(block, thread);
    if (row >= rows.batch) return sum;
    for (std::int64_t j = thread % rows.lanes; j < rows.classes; j += rows.lanes) {
      sum += to_float(logits[row * rows.classes + j]);
    }
    return sum;
  }

  CARILLON_HOST_DEVICE void fold_row_sums(Shared& shared, int thread, int width) const {
    if (width >= rows.lanes || thread % rows.lanes >= width) return;
    shared.sums[thread] += shared.sums[thread + width];
    if (smoothing > 0.0f) shared.losses[thread] += shared.losses[thread + width];
  }

  /// The loss of the row whose first thread this is; 0 from all others.
  CARILLON_HOST_DEVICE double finish_row(const Shared& shared, int block, int thread) const {
    const std::int64_t row = rows.row_of(block, thread);
    if (row >= rows.batch || thread % rows.lanes != 0) return 0.0;
    const RowExponentials of_row{shared.largest[thread], shared.sums[thread]};
    exponentials[row] = of_row;
    const float own = logit_of_label(row, row);
    if (!(smoothing > 0.0f) && !mixing.mixes()) return std::log(of_row.sum) + of_row.largest - own;
    double of_labels = own;
    if (mixing.mixes()) {
      of_labels = shared.lambda * of_labels + (1.0 - shared.lambda) * logit_of_label(row, mixed_with(row, rows.batch));
    }
    const double of_all = smoothing > 0.0f ? shared.losses[thread] / static_cast<double>(rows.classes) : 0.0;
    return std::log(of_row.sum) + of_row.largest - ((1.0 - smoothing) * of_labels + smoothing * of_all);
  }

  /// Of row `row`, for the label of sample `sample`.
  CARILLON_HOST_DEVICE float logit_of_label(std::int64_t row, std::int64_t sample) const {
    return to_float(logits[row * rows.classes + table.label(static_cast<std::size_t>(sample))]);
  }

  /// Whether all other blocks have finished before.
  CARILLON_HOST_DEVICE bool finish_block(const Shared& shared, int block) const {
    block_losses[block] = shared.losses[0];
    return fetch_increment(blocks_done) + 1 == static_cast<std::uint32_t>(rows.blocks());
  }

  CARILLON_HOST_DEVICE double sum_over_blocks(int thread) const {
    double sum = 0.0;
    for (int i = thread; i < rows.blocks(); i += threads) sum += block_losses[i];
    return sum;
  }
};

/// The gradient of logit number i. T: float or Bf16.
template <typename T>
struct SoftmaxGradient {
  const T* logits = nullptr;                      ///< [batch, classes]
  const RowExponentials* exponentials = nullptr;  ///< [batch], of the forward
  StepTable table;
  T* gradient = nullptr;  ///< [batch, classes]
  std::int64_t batch = 0, classes = 0;
  float smoothing = 0.0f;
  const float* lambda = nullptr;  ///< [], of the forward; null: labels are not mixed

  CARILLON_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row = i / classes;
    const RowExponentials of_row = exponentials[row];
    const float factor = 1.0f / (of_row.sum * static_cast<float>(batch));
    float result = std::exp(to_float(logits[i]) - of_row.largest) * factor;
    result -= smoothing / static_cast<float>(classes * batch);
    const float of_labels = (1.0f - smoothing) / static_cast<float>(batch);
    const float own_part = lambda == nullptr ? 1.0f : *lambda;
    if (is_label_of(row, i)) result -= own_part * of_labels;
    if (lambda != nullptr && is_label_of(mixed_with(row, batch), i)) result -= (1.0f - own_part) * of_labels;
    gradient[i] = stored_as<T>(result);
  }

  CARILLON_HOST_DEVICE bool is_label_of(std::int64_t sample, std::int64_t i) const {
    return i % classes == table.label(static_cast<std::size_t>(sample));
  }
};

}  // namespace carillon
