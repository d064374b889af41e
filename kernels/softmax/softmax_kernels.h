// The arithmetic of softmax, on CPU and GPU, and the kernels for a GPU. 32 neighbouring threads process a row. Each
// thread adds the elements of its lane. Then each of the 32 threads adds the sums of all lanes, in the same order.
#pragma once

#include <cstdint>

#include "kernels/elementwise/exp_below_zero.h"
#include "kernels/shared/block_kernel.h"
#include "src/core/bf16.h"

namespace carillon {

inline constexpr int softmax_lanes = 32;

/// Returns exp(x - largest), or 0 if x - largest is below -86.
CARILLON_HOST_DEVICE inline float softmax_term(float x, float largest) {
  const float below = x - largest, exponential = exp_below_zero(below);
  const float term = below < -86.0f ? 0.0f : exponential;
  return below == below ? term : below;  // NaN stays NaN
}

/// The rows of the kernels, and the threads that process them. T: float or Bf16.
template <typename T>
struct SoftmaxRows {
  static constexpr int threads = 256, lanes = softmax_lanes;

  std::int64_t rows = 0, columns = 0;

  int blocks() const {
    constexpr std::int64_t rows_per_block = threads / lanes;
    return static_cast<int>((rows + rows_per_block - 1) / rows_per_block);
  }
  CARILLON_HOST_DEVICE std::int64_t row_of(int block, int thread) const {
    return static_cast<std::int64_t>(block) * (threads / lanes) + thread / lanes;
  }
  /// Calls body(element) for the elements of the thread.
  template <typename Body>
  CARILLON_HOST_DEVICE void for_elements(std::int64_t row, int thread, const Body& body) const {
    for (std::int64_t i = thread % lanes; i < columns; i += lanes) body(row * columns + i);
  }
  /// Returns the address of the values of all lanes that process the thread's row.
  CARILLON_HOST_DEVICE static const float* of_row(const float* values, int thread) {
    return values + thread / lanes * lanes;
  }
  CARILLON_HOST_DEVICE static float sum_of_row(const float* values, int thread) {
    float sum = 0.0f;
    for (int lane = 0; lane < lanes; ++lane) sum += of_row(values, thread)[lane];
    return sum;
  }
};

template <typename T>
struct SoftmaxForward : SoftmaxRows<T> {
  using Rows = SoftmaxRows<T>;
  struct Shared {
    float largest[Rows::threads], sums[Rows::threads];
  };
  static constexpr int phases = 3;

  const T* x = nullptr;
  T* y = nullptr;

  CARILLON_HOST_DEVICE float largest_of_row(const Shared& shared, int thread) const {
    float largest = Rows::of_row(shared.largest, thread)[0];
    for (int lane = 1; lane < Rows::lanes; ++lane) {
      const float other = Rows::of_row(shared.largest, thread)[lane];
      largest = other > largest ? other : largest;
    }
    return largest;
  }

  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared& shared, int block, int thread) const {
    const std::int64_t row = this->row_of(block, thread);
    if (row >= this->rows) return;
    if constexpr (phase == 0) {
      float largest = to_float(x[row * this->columns]);
      this->for_elements(row, thread, [&](std::int64_t i) {
        const float value = to_float(x[i]);
        largest = value > largest ? value : largest;
      });
      shared.largest[thread] = largest;
      return;
    }
    const float largest = largest_of_row(shared, thread);
    if constexpr (phase == 1) {
      float sum = 0.0f;
      this->for_elements(row, thread, [&](std::int64_t i) { sum += softmax_term(to_float(x[i]), largest); });
      shared.sums[thread] = sum;
    } else {
      const float factor = 1.0f / Rows::sum_of_row(shared.sums, thread);
      this->for_elements(row, thread,
                         [&](std::int64_t i) { y[i] = stored_as<T>(softmax_term(to_float(x[i]), largest) * factor); });
    }
  }
};

template <typename T>
struct SoftmaxBackward : SoftmaxRows<T> {
  using Rows = SoftmaxRows<T>;
  struct Shared {
    float sums[Rows::threads];
  };
  static constexpr int phases = 2;

  const T *y = nullptr, *dy = nullptr;
  T* dx = nullptr;  ///< may be dy

  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared& shared, int block, int thread) const {
    const std::int64_t row = this->row_of(block, thread);
    if (row >= this->rows) return;
    if constexpr (phase == 0) {
      float sum = 0.0f;
      this->for_elements(row, thread, [&](std::int64_t i) { sum += to_float(dy[i]) * to_float(y[i]); });
      shared.sums[thread] = sum;
    } else {
      const float sum = Rows::sum_of_row(shared.sums, thread);
      this->for_elements(row, thread,
                         [&](std::int64_t i) { dx[i] = stored_as<T>(to_float(y[i]) * (to_float(dy[i]) - sum)); });
    }
  }
};

}  // namespace carillon
