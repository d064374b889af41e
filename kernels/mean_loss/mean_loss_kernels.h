// The losses of mean_loss as functors, on CPU and GPU: operator() is f, and slope is the derivative of f by the output.
// The file also has the CUDA kernel. All sums of the kernel have a fixed order, so equal inputs give equal bits.
#pragma once

#include <bit>
#include <cmath>

#include "carillon/core/host_device.h"
#include "carillon/graph/parameters.h"
#include "carillon/graph/step_inputs.h"
#include "kernels/mean_loss/mean_loss.h"
#include "kernels/shared/block_kernel.h"
#include "src/core/bf16.h"

namespace carillon {

struct SigmoidCrossEntropy {
  CARILLON_HOST_DEVICE float operator()(float z, float t) const {
    const float above_zero = z < 0.0f ? 0.0f : z;  // NaN stays NaN
    return above_zero - z * t + std::log1p(std::exp(-std::fabs(z)));
  }
  CARILLON_HOST_DEVICE float slope(float z, float t) const {
    const float exponential = std::exp(-std::fabs(z));
    return (z < 0.0f ? exponential : 1.0f) / (1.0f + exponential) - t;
  }
};

struct SquaredError {
  CARILLON_HOST_DEVICE float operator()(float z, float t) const { return (z - t) * (z - t); }
  CARILLON_HOST_DEVICE float slope(float z, float t) const { return 2.0f * (z - t); }
};

struct AbsoluteError {
  CARILLON_HOST_DEVICE float operator()(float z, float t) const { return std::fabs(z - t); }
  CARILLON_HOST_DEVICE float slope(float z, float t) const {
    const float error = z - t;
    return error > 0.0f ? 1.0f : error < 0.0f ? -1.0f : error;  // NaN stays NaN
  }
};

struct Huber {
  float delta = 1.0f;

  CARILLON_HOST_DEVICE float operator()(float z, float t) const {
    const float size = std::fabs(z - t);
    return size > delta ? delta * (size - 0.5f * delta) : 0.5f * size * size;
  }
  CARILLON_HOST_DEVICE float slope(float z, float t) const {
    const float error = z - t;
    return error > delta ? delta : error < -delta ? -delta : error;
  }
};

/// Calls body(f) with the functor of these parameters.
template <typename Body>
auto with_loss_function(const MeanLossParams& params, const Body& body) {
  switch (params.kind) {
    case MeanLossKind::sigmoid_cross_entropy:
      return body(SigmoidCrossEntropy{});
    case MeanLossKind::squared_error:
      return body(SquaredError{});
    case MeanLossKind::absolute_error:
      return body(AbsoluteError{});
    default:
      return body(Huber{params.delta});
  }
}

/// Computes the mean loss. Optional outputs: the gradient and the step sums. Each block computes some elements. The
/// block that finishes last adds up the results of all blocks. T: float or Bf16. Target: uint8 or float. F: functor of
/// the loss.
template <typename T, typename Target, typename F>
struct MeanLossKernel {
  static constexpr int threads = 256;
  static constexpr int elements_per_thread = 4;
  static constexpr int fold_phases = std::countr_zero(static_cast<unsigned>(threads));
  // After element_phase, and again after blocks_phase, fold_phases phases add the threads' sums.
  static constexpr int element_phase = 0;
  static constexpr int done_phase = element_phase + 1 + fold_phases;
  static constexpr int blocks_phase = done_phase + 1;
  static constexpr int end_phase = blocks_phase + 1 + fold_phases;
  static constexpr int phases = end_phase + 1;

  struct Shared {
    double sums[threads];
    bool last_block;
  };

  F function;
  std::int64_t batch = 0, columns = 0;
  const T* outputs = nullptr;  ///< [batch, columns]
  StepTable table;
  MixingParams mixing = {};
  double* block_sums = nullptr;          ///< [blocks]
  std::uint32_t* blocks_done = nullptr;  ///< the value is 0 between launches
  float* loss = nullptr;                 ///< []; null: not computed
  T* gradient = nullptr;                 ///< [batch, columns]; null: not computed
  float* step_sums = nullptr;            ///< [step_sum_count]; null: not computed

  CARILLON_HOST_DEVICE std::int64_t count() const { return batch * columns; }
  CARILLON_HOST_DEVICE int blocks() const {
    constexpr int elements = threads * elements_per_thread;
    return static_cast<int>((count() + elements - 1) / elements);
  }

  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared& shared, int block, int thread) const {
    if constexpr (phase == element_phase) {
      shared.sums[thread] = sum_of_thread(block, thread);
    } else if constexpr (phase < done_phase) {
      fold(shared.sums, thread, threads >> (phase - element_phase));
    } else if constexpr (phase == done_phase) {
      if (thread == 0) shared.last_block = finish_block(shared, block);
    } else if constexpr (phase == blocks_phase) {
      if (shared.last_block) shared.sums[thread] = sum_over_blocks(thread);
    } else if constexpr (phase < end_phase) {
      if (shared.last_block) fold(shared.sums, thread, threads >> (phase - blocks_phase));
    } else if (shared.last_block && thread == 0) {
      finish(shared);
    }
  }

 private:
  CARILLON_HOST_DEVICE float target_of(std::int64_t row, std::int64_t column) const {
    return static_cast<float>(table.target<Target>(static_cast<std::size_t>(row))[column]);
  }

  CARILLON_HOST_DEVICE double sum_of_thread(int block, int thread) const {
    double sum = 0.0;
    const Mixing mixed = draw_mixing(mixing, table.header().first_position);
    for (int k = 0; k < elements_per_thread; ++k) {
      const std::int64_t i = (static_cast<std::int64_t>(block) * elements_per_thread + k) * threads + thread;
      if (i >= count()) break;
      const std::int64_t row = i / columns, column = i % columns;
      float target = target_of(row, column);
      if (mixing.mixes()) target = mixed.blend(target, target_of(mixed_with(row, batch), column));
      const float z = to_float(outputs[i]);
      sum += function(z, target);
      if (gradient != nullptr) gradient[i] = stored_as<T>(function.slope(z, target) / static_cast<float>(count()));
    }
    return sum;
  }

  /// Stores the block's sum. Returns true in the block that finishes last.
  CARILLON_HOST_DEVICE bool finish_block(const Shared& shared, int block) const {
    block_sums[block] = shared.sums[0];
    return is_last_block(blocks_done, blocks());
  }

  CARILLON_HOST_DEVICE double sum_over_blocks(int thread) const {
    double sum = 0.0;
    for (int block = thread; block < blocks(); block += threads) sum += block_sums[block];
    return sum;
  }

  CARILLON_HOST_DEVICE void finish(const Shared& shared) const {
    const auto mean = static_cast<float>(shared.sums[0] / static_cast<double>(count()));
    if (loss != nullptr) *loss = mean;
    if (step_sums == nullptr) return;
    step_sums[loss_sum] = mean;
    step_sums[sync_sum] = table.header().request_sync;
  }
};

}  // namespace carillon
