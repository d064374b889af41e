// The class terms of softmax_cross_entropy, on CPU and GPU, and the CUDA kernel. All sums of the kernel have a fixed
// order, so equal inputs give equal bits.
//
// A class term is the contribution of one class to the loss of a row, or to the gradient of this loss, with class
// weights or focal loss.
//
//   f(p) = -(1 - p)^gamma log p            p: the probability of the class
//   h(p) = -p f'(p) = (1 - p)^gamma - gamma p (1 - p)^(gamma - 1) log p
//
// f and h are finite for every p that a softmax of finite logits returns. At p = 1, -log p / (1 - p) is replaced by its
// limit 1, so that h also exists for gamma < 1. At p = 0, log p comes from the logits, and p log p is 0.
#pragma once

#include <bit>
#include <cmath>

#include "carillon/core/host_device.h"
#include "carillon/graph/parameters.h"
#include "carillon/graph/step_inputs.h"
#include "kernels/shared/block_kernel.h"
#include "kernels/shared/mixing.h"
#include "src/core/bf16.h"

namespace carillon {

/// One class of a row of logits z.
struct ClassLogit {
  double shifted = 0.0;      ///< z - max(z)
  double exponential = 0.0;  ///< exp(z - max(z)): exactly 1 for the largest logit
  double sum = 0.0;          ///< sum of exp(z - max(z)) over the row, in double precision
  double log_sum = 0.0;      ///< log(sum)

  CARILLON_HOST_DEVICE double probability() const { return exponential / sum; }
  /// Returns 1 - probability. No digits are lost if the probability is above 1/2, which is possible only for the
  /// largest logit.
  CARILLON_HOST_DEVICE double rest() const { return (sum - exponential) / sum; }
};

struct ClassTerms {
  double loss = 0.0;   ///< f(p)
  double slope = 0.0;  ///< h(p)
};

CARILLON_HOST_DEVICE inline ClassTerms class_terms(const ClassLogit& logit, double gamma) {
  const double minus_log = logit.log_sum - logit.shifted;
  if (gamma == 0.0) return {minus_log, 1.0};
  const double rest = logit.rest(), factor = std::pow(rest, gamma);
  const double ratio = rest > 0.0 ? minus_log / rest : 1.0;
  return {factor * minus_log, factor * (1.0 + gamma * logit.probability() * ratio)};
}

/// Returns the gradient of a row's loss with respect to the logit of one class. `own_slope`: target * class weight *
/// h(p) of this class. `row_slope`: the sum of `own_slope` over all classes of the row.
CARILLON_HOST_DEVICE inline double class_gradient(const ClassLogit& logit, double own_slope, double row_slope) {
  return logit.probability() * (row_slope - own_slope) - own_slope * logit.rest();
}

inline constexpr int softmax_threads = 256;

/// Number of neighbouring threads that share a row of logits. If the row has at most 4 * softmax_threads logits, a
/// thread has at most 4 logits. The kernel is compiled for the three possible results.
CARILLON_HOST_DEVICE constexpr int softmax_lanes(std::int64_t classes) {
  return classes <= 16 ? 4 : classes <= 128 ? 32 : softmax_threads;
}

CARILLON_HOST_DEVICE constexpr int softmax_blocks(std::int64_t batch, std::int64_t classes) {
  const int rows_per_block = softmax_threads / softmax_lanes(classes);
  return static_cast<int>((batch + rows_per_block - 1) / rows_per_block);
}

/// Computes the mean loss. Optional outputs: the gradient, the column sums of the gradient, and the step sums. Each
/// block computes some rows. The block that finishes last adds up the results of all blocks. T: float or Bf16. lanes:
/// softmax_lanes(classes). weighs_classes: true if there are class weights or a focal gamma.
template <typename T, int lanes, bool weighs_classes = false>
struct SoftmaxKernel {
  static constexpr int threads = softmax_threads;
  static constexpr int rows_per_block = threads / lanes;
  static constexpr int fold_phases = std::countr_zero(static_cast<unsigned>(lanes));
  /// Number of partial sums of a sum over rows or blocks. One thread computes each partial sum. Then one thread adds
  /// all partial sums.
  static constexpr int parts = 16;
  // Each of the following phases before row_phase is followed by fold_phases phases, which reduce the values in Shared.
  static constexpr int largest_phase = 0;
  static constexpr int sum_phase = largest_phase + 1 + fold_phases;
  static constexpr int terms_phase = sum_phase + 1 + fold_phases;  ///< exists only if weighs_classes is true
  static constexpr int row_phase = weighs_classes ? terms_phase + 1 + fold_phases : terms_phase;
  static constexpr int block_phase = row_phase + 1;
  static constexpr int done_phase = block_phase + 1;
  static constexpr int batch_phase = done_phase + 1;
  static constexpr int end_phase = batch_phase + 1;
  static constexpr int phases = end_phase + 1;

  struct Shared {
    double losses[threads];  ///< loss of each row, at the row's first thread; before row_phase: sums of z, if there is
                             ///< label smoothing
    float largest[threads], sums[threads];
    // Only if weighs_classes is true. exact_sums: sums of exponentials in float64, which replace `sums`. slopes: sums
    // of w q h (w, q: softmax_cross_entropy.h; h: top of this file).
    double exact_sums[weighs_classes ? threads : 1], slopes[weighs_classes ? threads : 1];
    double part_sums[parts];
    float lambda;
    bool last_block;
  };

  std::int64_t batch = 0, classes = 0;
  const T* logits = nullptr;  ///< [batch, classes]
  StepTable table;
  double* block_losses = nullptr;        ///< [blocks]
  std::uint32_t* blocks_done = nullptr;  ///< 0 between launches
  float* loss = nullptr;                 ///< []; null: not computed
  float smoothing = 0.0f;
  MixingParams mixing = {};
  const float* weights = nullptr;  ///< [classes]; null: all weights are 1
  float gamma = 0.0f;
  T* gradient = nullptr;           ///< [batch, classes]; null: the kernel computes no gradient and no column sums
  float* column_sums = nullptr;    ///< [classes], sums of the stored (rounded) gradient; null: not computed
  float* block_columns = nullptr;  ///< [blocks, classes], if column_sums is not null
  float* step_sums = nullptr;      ///< [step_sum_count]; null: not computed

  CARILLON_HOST_DEVICE int blocks() const { return softmax_blocks(batch, classes); }

  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared& shared, int block, int thread) const {
    if constexpr (phase == largest_phase) {
      shared.largest[thread] = largest_of_thread(block, thread);
      if (thread == 0 && mixing.mixes()) shared.lambda = draw_mixing(mixing, table.header().first_position).lambda;
    } else if constexpr (phase < sum_phase) {
      fold_largest(shared, thread, lanes >> (phase - largest_phase));
    } else if constexpr (phase == sum_phase) {
      if constexpr (weighs_classes) {
        shared.exact_sums[thread] = sum_of_thread<double>(shared, block, thread);
      } else {
        shared.sums[thread] = sum_of_thread<float>(shared, block, thread);
        if (smoothing > 0.0f) shared.losses[thread] = logits_of_thread(block, thread);
      }
    } else if constexpr (phase < terms_phase) {
      fold_row_sums(shared, thread, lanes >> (phase - sum_phase));
    } else if constexpr (weighs_classes && phase == terms_phase) {
      add_terms_of_thread(shared, block, thread);
    } else if constexpr (phase < row_phase) {
      fold_terms(shared, thread, lanes >> (phase - terms_phase));
    } else if constexpr (phase == row_phase) {
      if constexpr (weighs_classes) {
        if (gradient != nullptr) write_weighted_gradient(shared, block, thread);
      } else {
        if (thread % lanes == 0) shared.losses[thread] = row_loss(shared, block, thread);
        if (gradient != nullptr) write_gradient(shared, block, thread);
      }
    } else if constexpr (phase == block_phase) {
      if (thread < parts) shared.part_sums[thread] = sum_over_rows(shared, thread);
      if (column_sums != nullptr) sum_columns_of_block(block, thread);
    } else if constexpr (phase == done_phase) {
      if (thread == 0) shared.last_block = finish_block(shared, block);
    } else if constexpr (phase == batch_phase) {
      if (!shared.last_block) return;
      if (thread < parts) shared.part_sums[thread] = sum_over_blocks(thread);
      if (column_sums != nullptr) sum_columns_over_blocks(thread);
    } else if (shared.last_block && thread == 0) {
      finish(shared);
    }
  }

 private:
  CARILLON_HOST_DEVICE static std::int64_t row_of(int block, int thread) {
    return static_cast<std::int64_t>(block) * rows_per_block + thread / lanes;
  }
  /// Calls body(row, j) for each logit of this thread. Does not call body if the row is outside the batch.
  template <typename Body>
  CARILLON_HOST_DEVICE void for_each_logit(int block, int thread, const Body& body) const {
    const std::int64_t row = row_of(block, thread);
    if (row >= batch) return;
    for (std::int64_t j = thread % lanes; j < classes; j += lanes) body(row, j);
  }
  CARILLON_HOST_DEVICE float logit(std::int64_t row, std::int64_t j) const {
    return to_float(logits[row * classes + j]);
  }
  CARILLON_HOST_DEVICE std::int64_t label(std::int64_t sample) const {
    return *table.target<std::int32_t>(static_cast<std::size_t>(sample));
  }

  CARILLON_HOST_DEVICE float largest_of_thread(int block, int thread) const {
    float largest = -INFINITY;
    for_each_logit(block, thread, [&](std::int64_t row, std::int64_t j) {
      const float z = logit(row, j);
      if (z > largest) largest = z;
    });
    return largest;
  }

  CARILLON_HOST_DEVICE void fold_largest(Shared& shared, int thread, int width) const {
    if (thread % lanes >= width) return;
    float& mine = shared.largest[thread];
    const float other = shared.largest[thread + width];
    if (other > mine) mine = other;
  }

  template <typename Sum>
  CARILLON_HOST_DEVICE Sum sum_of_thread(const Shared& shared, int block, int thread) const {
    Sum sum = 0;
    const float largest = shared.largest[thread / lanes * lanes];
    for_each_logit(block, thread, [&](std::int64_t row, std::int64_t j) { sum += std::exp(logit(row, j) - largest); });
    return sum;
  }

  CARILLON_HOST_DEVICE double logits_of_thread(int block, int thread) const {
    double sum = 0.0;
    for_each_logit(block, thread, [&](std::int64_t row, std::int64_t j) { sum += logit(row, j); });
    return sum;
  }

  CARILLON_HOST_DEVICE void fold_row_sums(Shared& shared, int thread, int width) const {
    if (thread % lanes >= width) return;
    if constexpr (weighs_classes) {
      shared.exact_sums[thread] += shared.exact_sums[thread + width];
    } else {
      shared.sums[thread] += shared.sums[thread + width];
      if (smoothing > 0.0f) shared.losses[thread] += shared.losses[thread + width];
    }
  }

  /// Returns q[row, j] w[j].
  CARILLON_HOST_DEVICE double weighted_target(const Shared& shared, std::int64_t row, std::int64_t j) const {
    const double lambda = mixing.mixes() ? shared.lambda : 1.0;
    double share = j == label(row) ? lambda : 0.0;
    if (mixing.mixes() && j == label(mixed_with(row, batch))) share += 1.0 - lambda;
    const double target = (1.0 - smoothing) * share + static_cast<double>(smoothing) / static_cast<double>(classes);
    return weights == nullptr ? target : target * weights[j];
  }

  /// Calls body(row, j, logit, weighted target) for each logit of this thread.
  template <typename Body>
  CARILLON_HOST_DEVICE void for_each_class(const Shared& shared, int block, int thread, const Body& body) const {
    const int first = thread / lanes * lanes;
    const float largest = shared.largest[first];
    const double sum = shared.exact_sums[first], log_sum = std::log(sum);
    for_each_logit(block, thread, [&](std::int64_t row, std::int64_t j) {
      const float z = logit(row, j);
      const ClassLogit of_class{static_cast<double>(z) - largest, std::exp(z - largest), sum, log_sum};
      body(row, j, of_class, weighted_target(shared, row, j));
    });
  }

  /// The class of the label is included even if its weight is 0, so that a NaN reaches the loss.
  CARILLON_HOST_DEVICE void add_terms_of_thread(Shared& shared, int block, int thread) const {
    double loss_terms = 0.0, slope = 0.0;
    for_each_class(shared, block, thread,
                   [&](std::int64_t row, std::int64_t j, const ClassLogit& of_class, double target) {
                     if (target == 0.0 && j != label(row)) return;
                     const ClassTerms terms = class_terms(of_class, gamma);
                     loss_terms += target * terms.loss;
                     slope += target * terms.slope;
                   });
    shared.losses[thread] = loss_terms;
    shared.slopes[thread] = slope;
  }

  CARILLON_HOST_DEVICE void fold_terms(Shared& shared, int thread, int width) const {
    if (thread % lanes >= width) return;
    shared.losses[thread] += shared.losses[thread + width];
    shared.slopes[thread] += shared.slopes[thread + width];
  }

  CARILLON_HOST_DEVICE void write_weighted_gradient(const Shared& shared, int block, int thread) const {
    const double row_slope = shared.slopes[thread / lanes * lanes];
    for_each_class(shared, block, thread,
                   [&](std::int64_t row, std::int64_t j, const ClassLogit& of_class, double target) {
                     const double slope = target == 0.0 ? 0.0 : target * class_terms(of_class, gamma).slope;
                     const double result = class_gradient(of_class, slope, row_slope) / static_cast<double>(batch);
                     gradient[row * classes + j] = stored_as<T>(static_cast<float>(result));
                   });
  }

  /// Returns the loss of the row that starts at this thread, or 0 if the row is outside the batch.
  CARILLON_HOST_DEVICE double row_loss(const Shared& shared, int block, int thread) const {
    const std::int64_t row = row_of(block, thread);
    if (row >= batch) return 0.0;
    const float own = logit(row, label(row));
    const auto log_of_sum = std::log(shared.sums[thread]);
    if (!(smoothing > 0.0f) && !mixing.mixes()) return log_of_sum + shared.largest[thread] - own;
    double of_labels = own;
    if (mixing.mixes()) {
      of_labels = shared.lambda * of_labels + (1.0 - shared.lambda) * logit(row, label(mixed_with(row, batch)));
    }
    const double of_all = smoothing > 0.0f ? shared.losses[thread] / static_cast<double>(classes) : 0.0;
    return log_of_sum + shared.largest[thread] - ((1.0 - smoothing) * of_labels + smoothing * of_all);
  }

  CARILLON_HOST_DEVICE void write_gradient(const Shared& shared, int block, int thread) const {
    const int first = thread / lanes * lanes;
    const float largest = shared.largest[first];
    const float factor = 1.0f / (shared.sums[first] * static_cast<float>(batch));
    const float of_all = smoothing / static_cast<float>(classes * batch);
    const float of_labels = (1.0f - smoothing) / static_cast<float>(batch);
    const float own_part = mixing.mixes() ? shared.lambda : 1.0f;
    for_each_logit(block, thread, [&](std::int64_t row, std::int64_t j) {
      float result = std::exp(logit(row, j) - largest) * factor - of_all;
      if (j == label(row)) result -= own_part * of_labels;
      if (mixing.mixes() && j == label(mixed_with(row, batch))) result -= (1.0f - own_part) * of_labels;
      gradient[row * classes + j] = stored_as<T>(result);
    });
  }

  CARILLON_HOST_DEVICE double sum_over_rows(const Shared& shared, int part) const {
    double sum = 0.0;
    for (int row = part; row < rows_per_block; row += parts) sum += shared.losses[row * lanes];
    return sum;
  }

  CARILLON_HOST_DEVICE void sum_columns_of_block(int block, int thread) const {
    const std::int64_t begin = row_of(block, 0);
    const std::int64_t end = begin + rows_per_block < batch ? begin + rows_per_block : batch;
    for (std::int64_t j = thread; j < classes; j += threads) {
      float sum = 0.0f;
      for (std::int64_t row = begin; row < end; ++row) sum += to_float(gradient[row * classes + j]);
      block_columns[block * classes + j] = sum;
    }
  }

  /// Stores the block's loss. Returns true in the block that finishes last.
  CARILLON_HOST_DEVICE bool finish_block(const Shared& shared, int block) const {
    block_losses[block] = sum_of_parts(shared);
    return is_last_block(blocks_done, blocks());
  }

  CARILLON_HOST_DEVICE static double sum_of_parts(const Shared& shared) {
    double sum = 0.0;
    for (const double part : shared.part_sums) sum += part;
    return sum;
  }

  CARILLON_HOST_DEVICE double sum_over_blocks(int part) const {
    double sum = 0.0;
    for (int block = part; block < blocks(); block += parts) sum += block_losses[block];
    return sum;
  }

  CARILLON_HOST_DEVICE void sum_columns_over_blocks(int thread) const {
    for (std::int64_t j = thread; j < classes; j += threads) {
      float sum = 0.0f;
      for (int block = 0; block < blocks(); ++block) sum += block_columns[block * classes + j];
      column_sums[j] = sum;
    }
  }

  CARILLON_HOST_DEVICE void finish(const Shared& shared) const {
    const float mean = static_cast<float>(sum_of_parts(shared) / static_cast<double>(batch));
    if (loss != nullptr) *loss = mean;
    if (step_sums == nullptr) return;
    step_sums[loss_sum] = mean;
    step_sums[sync_sum] = table.header().request_sync;
  }
};

/// Calls body(std::integral_constant<int, softmax_lanes(classes)>).
template <typename Body>
auto with_softmax_lanes(std::int64_t classes, const Body& body) {
  switch (softmax_lanes(classes)) {
    case 4:
      return body(std::integral_constant<int, 4>{});
    case 32:
      return body(std::integral_constant<int, 32>{});
    default:
      return body(std::integral_constant<int, softmax_threads>{});
  }
}

}  // namespace carillon
