// Conv2dPlan: one of conv2d's three convolutions as a cuDNN kernel, chosen at construction. CUDA builds only.
//
// cuDNN's heuristic proposes kernels for the shapes and the GPU. The first proposal is the kernel that the heuristic
// expects to be the fastest. The plan is the first kernel that
//   - gives the same bits on every run,
//   - multiplies in the requested Arithmetic and sums in float32 (fp32: no tensor cores; never Winograd or Fourier),
//   - is compiled in the library: compilation at run time takes seconds at every start, and the choice could not be
//     inspected without the GPU,
//   - needs no more workspace than is available.
// If there is an acceptable measured plan, it is used instead. Therefore the same GPU and library always use the same
// plan. Acceptable kernels compute gradients of weights in the type of their operands, and add float32 biases only to
// float32 results. Plans have no ReLU, because most kernels with a ReLU turn NaN into 0. The only kernels that keep NaN
// (STRICT_NAN_PROP) are slow and use no tensor cores.
//
// Measured plans are plans that were measured once on a GPU, and were the fastest for their convolution. A measurement
// at every start could choose another kernel in every run, and then two runs would differ in their bits.
// tests/gpu/time_conv_plans_gpu.cpp measures; tests/gpu/measured_plans.py writes the table, measured_plans.inc.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/conv2d/conv2d.h"
#include "src/device/cuda_device.h"

namespace carillon {

// conv2d's tensors in cuDNN's terms. The extents are in cuDNN's order (batch or filter, channel, row, column). Strides
// describe the memory layout and count elements.
//
// The memory layout of activations is [batch, row, column, channel]. The memory layout of weights is [filter, row,
// column, channel], because cuDNN's kernels require channels innermost. This is the transpose of the parameter's layout
// [row * column * channel, filter]. Source: cuDNN, "Graph API", tensors and layouts; pre- and post-padding of its
// convolution descriptor.

struct StridedTensor {
  std::array<std::int64_t, 4> extents, strides;
};

/// Returns a tensor with the memory layout [outer, rows, columns, channels].
inline StridedTensor channels_last(std::int64_t outer, std::int64_t channels, std::int64_t rows, std::int64_t columns) {
  return {{outer, channels, rows, columns}, {rows * columns * channels, 1, columns * channels, channels}};
}

struct Conv2dLayout {
  StridedTensor x, weights, biases, y;
  std::array<std::int64_t, 2> stride, padding_before, padding_after;  ///< each has one number for rows and one number
                                                                      ///< for columns
  std::array<std::int64_t, 2> dilation = {1, 1};
};

/// The arguments are the shapes of conv2d.h; `weights` is the shape of the parameter. If x has more channels than the
/// parameter (padding), the weights are padded to the same number of channels. cuDNN derives the number of groups from
/// the channels of x and of the weights.
inline Conv2dLayout conv2d_layout(const Conv2dGeometry& geometry, const Shape& x, const Shape& weights,
                                  const Shape& y) {
  const SlidingWindow &rows = geometry.vertical, &columns = geometry.horizontal;
  return {.x = channels_last(x[0], x[3], x[1], x[2]),
          .weights = channels_last(weights[3], x[3] / geometry.groups, weights[0], weights[1]),
          .biases = channels_last(1, weights[3], 1, 1),
          .y = channels_last(y[0], y[3], y[1], y[2]),
          .stride = {rows.stride, columns.stride},
          .padding_before = {rows.before, columns.before},
          .padding_after = {rows.after, columns.after},
          .dilation = {rows.dilation, columns.dilation}};
}

struct Conv2dTask;

struct MeasuredPlan {
  std::string_view convolution;  ///< text of the convolution (convolution_text)
  std::string_view kernel;       ///< cuDNN's name of the kernel, with its parameters
};

/// Returns the table, or an empty table if is_switched_off("measured_plans").
std::span<const MeasuredPlan> measured_plans();

/// Returns the conditions of a measurement: GPU, version of cuDNN, pass, types and extents.
std::string convolution_text(const GpuModel& gpu, std::size_t cudnn_version, const Conv2dTask& task);

/// Returns the kernel of the entry for `convolution`, or an empty string if the table has no entry.
std::string_view measured_kernel(std::span<const MeasuredPlan> plans, std::string_view convolution);

/// The passes compute y from x and weights, dW from x and dy, or dx from dy and W.
enum class Conv2dPass { forward, forward_bias, weights_gradient, data_gradient };

struct Conv2dTask {
  Conv2dPass pass = Conv2dPass::forward;
  Conv2dLayout layout;
  DType type = DType::f32;  ///< type of operands and result; biases are always float32
  Arithmetic arithmetic = Arithmetic::fp32;
  std::size_t workspace_bytes = 0;  ///< bytes of the workspace that is available
};

class Conv2dPlan {
 public:
  /// The memory of each tensor. In a gradient pass, the memory of the gradient replaces the memory of its tensor.
  struct Memory {
    void *x = nullptr, *weights = nullptr, *biases = nullptr, *y = nullptr;
  };

  /// Returns the measured plan if it is acceptable. Otherwise returns the first acceptable plan of cuDNN's heuristics
  /// that uses tensor cores (tf32, bf16) and divides the sums of a small weight gradient. If no plan meets both
  /// conditions, returns a plan that uses tensor cores. If no acceptable plan uses tensor cores, returns a plan that
  /// divides the sums. If no acceptable plan divides the sums, returns any acceptable plan. If no plan is acceptable,
  /// returns null and sets `reason`.
  static std::unique_ptr<Conv2dPlan> find(const CudnnTarget& target, const Conv2dTask& task, std::string& reason,
                                          std::span<const MeasuredPlan> measured = measured_plans());
  /// Returns the first `count` acceptable plans of cuDNN's heuristics, for measurements. Returns fewer plans if cuDNN
  /// proposes fewer.
  static std::vector<std::unique_ptr<Conv2dPlan>> candidates(const CudnnTarget& target, const Conv2dTask& task,
                                                             std::size_t count);
  /// Returns the convolution's text for the table of measured plans.
  static std::string text(const CudnnTarget& target, const Conv2dTask& task);
  ~Conv2dPlan();

  /// Enqueues the kernel on the handle's stream. `workspace`: memory of at least the task's workspace_bytes.
  void run(cudnnHandle_t handle, const Memory& memory, void* workspace) const;

  std::size_t workspace_bytes() const;
  /// cuDNN's name of the kernel, with its parameters.
  std::string kernel() const;
  bool on_tensor_cores() const;

 private:
  struct Implementation;
  explicit Conv2dPlan(std::unique_ptr<Implementation> implementation);

  std::unique_ptr<Implementation> implementation_;
};

}  // namespace carillon
