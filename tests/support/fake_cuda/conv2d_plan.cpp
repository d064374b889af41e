// The fake's Conv2dPlan. Computes the same convolutions as cuDNN, with the same memory layouts. This file replaces
// kernels/conv2d/conv2d_plan_cuda.cpp, so tests on the fake do not cover the calls of cudnn-frontend.
#include "kernels/conv2d/conv2d_plan_cuda.h"

#include <vector>

#include "memory.h"
#include "objects.h"
#include "src/core/bf16.h"
#include "src/device/cuda_device.h"

cudaStream_t stream_of(cudnnHandle_t handle);

namespace carillon {
namespace {

/// Returns the elements of a tensor of f32 or bf16 as floats, in the order of memory. The tensor must have no gaps.
std::vector<float> loaded(const StridedTensor& tensor, const void* data, DType type) {
  std::size_t count = 1;
  for (const std::int64_t extent : tensor.extents) count *= static_cast<std::size_t>(extent);
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = type == DType::bf16 ? to_float(static_cast<const Bf16*>(data)[i]) : static_cast<const float*>(data)[i];
  }
  return values;
}

void store(const std::vector<float>& values, void* data, DType type) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (type == DType::bf16) {
      static_cast<Bf16*>(data)[i] = to_bf16(values[i]);
    } else {
      static_cast<float*>(data)[i] = values[i];
    }
  }
}

/// Calls body(x, weight, y) for each pixel of y, for each position in its window that is inside of x, and for each
/// filter. The arguments are indices. x: the pixel's first channel that belongs to the filter's group. weight: the
/// filter's first weight at this position. y: the result. The body must loop over the channels of the group.
template <typename Body>
void for_each_meeting(const Conv2dLayout& layout, const Body& body) {
  const auto [batch, filters, rows, columns] = layout.y.extents;
  const std::int64_t window_rows = layout.weights.extents[2], window_columns = layout.weights.extents[3];
  for (std::int64_t n = 0; n < batch; ++n) {
    for (std::int64_t p = 0; p < rows * columns; ++p) {
      for (std::int64_t w = 0; w < window_rows * window_columns; ++w) {
        const std::int64_t i = w / window_columns, j = w % window_columns;
        const std::int64_t row = p / columns * layout.stride[0] + i * layout.dilation[0] - layout.padding_before[0];
        const std::int64_t column = p % columns * layout.stride[1] + j * layout.dilation[1] - layout.padding_before[1];
        if (row < 0 || row >= layout.x.extents[2] || column < 0 || column >= layout.x.extents[3]) continue;
        const auto& x = layout.x.strides;
        const auto& weights = layout.weights.strides;
        const auto& y = layout.y.strides;
        const std::int64_t at = n * x[0] + row * x[2] + column * x[3];
        const std::int64_t out = n * y[0] + p / columns * y[2] + p % columns * y[3];
        for (std::int64_t f = 0; f < filters; ++f) {
          const std::int64_t group = f / (filters * layout.weights.extents[1] / layout.x.extents[1]);
          body(at + group * layout.weights.extents[1], f * weights[0] + i * weights[2] + j * weights[3], out + f);
        }
      }
    }
  }
}

void run_forward(const Conv2dTask& task, const Conv2dPlan::Memory& memory) {
  const Conv2dLayout& layout = task.layout;
  const auto x = loaded(layout.x, memory.x, task.type);
  const auto weights = loaded(layout.weights, memory.weights, task.type);
  std::vector<float> y(loaded(layout.y, memory.y, task.type).size());
  const std::int64_t channels = layout.weights.extents[1], filters = layout.y.extents[1];
  for_each_meeting(layout, [&](std::int64_t at, std::int64_t weight, std::int64_t out) {
    float sum = 0.0f;
    for (std::int64_t c = 0; c < channels; ++c) sum += x[at + c] * weights[weight + c];
    y[out] += sum;
  });
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (task.pass != Conv2dPass::forward) y[i] += static_cast<const float*>(memory.biases)[i % filters];
  }
  store(y, memory.y, task.type);
}

void run_weights_gradient(const Conv2dTask& task, const Conv2dPlan::Memory& memory) {
  const Conv2dLayout& layout = task.layout;
  const auto x = loaded(layout.x, memory.x, task.type), dy = loaded(layout.y, memory.y, task.type);
  std::vector<float> gradient(loaded(layout.weights, memory.weights, task.type).size());
  const std::int64_t channels = layout.weights.extents[1];
  for_each_meeting(layout, [&](std::int64_t at, std::int64_t weight, std::int64_t out) {
    for (std::int64_t c = 0; c < channels; ++c) gradient[weight + c] += x[at + c] * dy[out];
  });
  store(gradient, memory.weights, task.type);
}

void run_data_gradient(const Conv2dTask& task, const Conv2dPlan::Memory& memory) {
  const Conv2dLayout& layout = task.layout;
  const auto weights = loaded(layout.weights, memory.weights, task.type);
  const auto dy = loaded(layout.y, memory.y, task.type);
  std::vector<float> gradient(loaded(layout.x, memory.x, task.type).size());
  const std::int64_t channels = layout.weights.extents[1];
  for_each_meeting(layout, [&](std::int64_t at, std::int64_t weight, std::int64_t out) {
    for (std::int64_t c = 0; c < channels; ++c) gradient[at + c] += weights[weight + c] * dy[out];
  });
  store(gradient, memory.x, task.type);
}

void run_task(const Conv2dTask& task, const Conv2dPlan::Memory& memory) {
  if (task.pass == Conv2dPass::weights_gradient) return run_weights_gradient(task, memory);
  if (task.pass == Conv2dPass::data_gradient) return run_data_gradient(task, memory);
  run_forward(task, memory);
}

}  // namespace

struct Conv2dPlan::Implementation {
  Conv2dTask task;
};

Conv2dPlan::Conv2dPlan(std::unique_ptr<Implementation> implementation) : implementation_(std::move(implementation)) {}
Conv2dPlan::~Conv2dPlan() = default;

std::unique_ptr<Conv2dPlan> Conv2dPlan::find(const CudnnTarget& target, const Conv2dTask& task, std::string& reason,
                                             std::span<const MeasuredPlan> /*measured*/) {
  const bool has_bias = task.pass == Conv2dPass::forward_bias;
  const bool adds_biases = fake_cuda::settings().fused_biases && task.type == DType::f32;
  if (target.handle == nullptr || (has_bias && !adds_biases)) {
    reason = "the fake has no such kernel";
    return nullptr;
  }
  return std::unique_ptr<Conv2dPlan>(new Conv2dPlan(std::make_unique<Implementation>(Implementation{task})));
}

std::vector<std::unique_ptr<Conv2dPlan>> Conv2dPlan::candidates(const CudnnTarget& target, const Conv2dTask& task,
                                                                std::size_t /*count*/) {
  std::vector<std::unique_ptr<Conv2dPlan>> found;
  std::string reason;
  if (auto plan = find(target, task, reason)) found.push_back(std::move(plan));
  return found;
}

std::string Conv2dPlan::text(const CudnnTarget& /*target*/, const Conv2dTask& task) {
  return convolution_text({}, cudnnGetVersion(), task);
}

void Conv2dPlan::run(cudnnHandle_t handle, const Memory& memory, void* workspace) const {
  for (const void* pointer : {memory.x, memory.weights, memory.y, workspace}) {
    if (fake_cuda::place_of(pointer, 1) != fake_cuda::Place::device) {
      fake_cuda::misuse("a convolution of memory that is not the device's");
    }
  }
  check_cuda(fake_cuda::enqueue_kernel(
      stream_of(handle), [task = implementation_->task, memory] { run_task(task, memory); }, "cudnn_convolution"));
}

std::size_t Conv2dPlan::workspace_bytes() const { return 0; }
std::string Conv2dPlan::kernel() const { return "fake"; }
bool Conv2dPlan::on_tensor_cores() const { return false; }

}  // namespace carillon
