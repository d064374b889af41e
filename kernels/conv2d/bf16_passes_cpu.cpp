// The passes of conv2d on bf16 activations. The passes use products of tiles, with ExpandedColumns if there are few
// channels. Convolutions with groups, dilation or large padding use direct convolutions in float32 instead. In this
// case, the op has float32 copies of x and y, and backward uses the memory of these copies for dx and dz.
#include "kernels/conv2d/bf16_conv2d.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "carillon/core/parallel.h"
#include "kernels/conv2d/conv2d_passes_cpu.h"
#include "kernels/shared/rows_cpu.h"
#include "src/core/bf16.h"

namespace carillon {

ExpandedColumns::ExpandedColumns(CpuDevice& device, const Tensor& x, const SlidingWindow& columns)
    : x_(x),
      columns_(columns),
      expanded_{nullptr, {x.shape[0], x.shape[1], columns.output, columns.window * x.shape[3]}, x.type} {
  memory_ = device.allocate(expanded_.bytes());
  expanded_.data = memory_.data();
}

void ExpandedColumns::fill() const {
  const std::int64_t channels = x_.shape[3], row = columns_.input * channels;
  const std::int64_t depth = columns_.window * channels, expanded_row = columns_.output * depth;
  const auto rows = static_cast<std::size_t>(x_.shape[0] * x_.shape[1]);
  parallel_items(rows, static_cast<std::size_t>(expanded_row), elementwise_grain,
                 [&](std::size_t first, std::size_t last) {
                   for (auto i = static_cast<std::int64_t>(first); i < static_cast<std::int64_t>(last); ++i) {
                     const Bf16* const from = static_cast<const Bf16*>(x_.data) + i * row;
                     Bf16* to = static_cast<Bf16*>(expanded_.data) + i * expanded_row;
                     for (std::int64_t q = 0; q < columns_.output; ++q, to += depth) {
                       const std::int64_t left = q * columns_.stride - columns_.before;
                       const std::int64_t begin = std::clamp<std::int64_t>(-left, 0, columns_.window);
                       const std::int64_t end = std::clamp(columns_.input - left, begin, columns_.window);
                       std::fill_n(to, begin * channels, Bf16{});
                       std::copy_n(from + (left + begin) * channels, (end - begin) * channels, to + begin * channels);
                       std::fill_n(to + end * channels, depth - end * channels, Bf16{});
                     }
                   }
                 });
}

namespace {

/// A forward pass on expanded columns. The pass keeps the expanded columns, because the weights gradient reads them.
class ForwardOfExpanded final : public Conv2dPassCpu {
 public:
  ForwardOfExpanded(std::unique_ptr<ExpandedColumns> expanded, std::unique_ptr<Conv2dPassCpu> pass)
      : expanded_(std::move(expanded)), pass_(std::move(pass)) {}
  void run() override {
    expanded_->fill();
    pass_->run();
  }

 private:
  std::unique_ptr<ExpandedColumns> expanded_;
  std::unique_ptr<Conv2dPassCpu> pass_;
};

Tensor reshaped(const Tensor& tensor, const Shape& shape) { return {tensor.data, shape, tensor.type}; }

}  // namespace

Conv2dPassesCpu make_bf16_conv2d(const Conv2dGeometry& geometry, CpuDevice& device, const OpTensors& tensors) {
  const Tensor &y = tensors.outputs.at(0), &weights = tensors.parameters.at(0);
  constexpr std::int64_t few_channels = 16;
  std::unique_ptr<ExpandedColumns> expanded;
  Tensor x = tensors.inputs.at(0);
  Shape filters = weights.shape;
  SlidingWindow columns = geometry.horizontal;
  if (filters[2] < few_channels && filters[1] > 1) {
    expanded = std::make_unique<ExpandedColumns>(device, x, columns);
    x = expanded->tensor();
    filters = {filters[0], 1, filters[1] * filters[2], filters[3]};
    columns = expanded->columns();
  }
  Conv2dPassesCpu passes;
  passes.forward = make_bf16_pass(device, Bf16Convolution{.source = x,
                                                          .filters = reshaped(weights, filters),
                                                          .bias = biases_of(tensors),
                                                          .target = y,
                                                          .rows = GatherAxis::forward_of(geometry.vertical),
                                                          .columns = GatherAxis::forward_of(columns),
                                                          .relu = geometry.relu});
  if (expanded) passes.forward = std::make_unique<ForwardOfExpanded>(std::move(expanded), std::move(passes.forward));
  if (tensors.parameter_gradients.empty()) return passes;
  const Tensor &dx = tensors.input_gradients.at(0), &dz = tensors.output_gradients.at(0);
  const Tensor dw = reshaped(tensors.parameter_gradients.at(0), filters);
  passes.weights_gradient = make_bf16_pass(device, Bf16WeightsGradient{x, dz, dw, geometry.vertical, columns});
  if (!dx) return passes;
  passes.data_gradient = make_bf16_pass(device, Bf16Convolution{.source = dz,
                                                                .filters = weights,
                                                                .bias = {},
                                                                .target = dx,
                                                                .rows = GatherAxis::backward_of(geometry.vertical),
                                                                .columns = GatherAxis::backward_of(geometry.horizontal),
                                                                .accumulate = geometry.accumulates_dx});
  return passes;
}

namespace {

CARILLON_SIMD void round_to_bf16(const float* __restrict from, std::size_t count, float* __restrict to) {
  for (std::size_t i = 0; i < count; ++i) to[i] = to_float(to_bf16(from[i]));
}

/// Copies `from` to `to` as float32. Weights are already float32; this function rounds their values to bf16.
void load(const Tensor& from, const Tensor& to) {
  const std::span<float> floats = to.floats();
  parallel_ranges(floats.size(), elementwise_grain, [&](std::size_t first, std::size_t last) {
    if (from.type == DType::bf16) {
      read_floats(ElementPointer(from) + first, last - first, floats.data() + first);
    } else {
      round_to_bf16(from.floats().data() + first, last - first, floats.data() + first);
    }
  });
}

/// Copies `from` to `to`, rounded to bf16.
void store(const Tensor& from, const Tensor& to) {
  const std::span<const float> floats = from.floats();
  parallel_ranges(floats.size(), elementwise_grain, [&](std::size_t first, std::size_t last) {
    write_floats(floats.data() + first, last - first, ElementPointer(to) + first);
  });
}

/// The memory of one op's float32 tensors.
struct Float32Tensors {
  Buffer memory[3];
  Tensor x, y, weights;

  Float32Tensors(CpuDevice& device, const OpTensors& tensors)
      : x(allocated(device, tensors.inputs.at(0).shape, memory[0])),
        y(allocated(device, tensors.outputs.at(0).shape, memory[1])),
        weights(allocated(device, tensors.parameters.at(0).shape, memory[2])) {}

 private:
  static Tensor allocated(CpuDevice& device, const Shape& shape, Buffer& memory) {
    Tensor tensor{nullptr, shape, DType::f32};
    memory = device.allocate(tensor.bytes());
    tensor.data = memory.data();
    return tensor;
  }
};

/// A float32 pass for bf16 tensors. Converts the operands before the pass, and the result after the pass.
class ConvertedPass final : public Conv2dPassCpu {
 public:
  struct Conversion {
    Tensor from, to;
  };
  /// `memory`: memory of the float32 tensors. If the result of a pass is float32, it is not converted.
  ConvertedPass(std::shared_ptr<const Float32Tensors> memory, std::vector<Conversion> before,
                std::unique_ptr<Conv2dPassCpu> pass, std::vector<Conversion> after)
      : memory_(std::move(memory)), before_(std::move(before)), pass_(std::move(pass)), after_(std::move(after)) {}

  void run() override {
    for (const auto& [from, to] : before_) load(from, to);
    pass_->run();
    for (const auto& [from, to] : after_) store(from, to);
  }

 private:
  std::shared_ptr<const Float32Tensors> memory_;
  std::vector<Conversion> before_;
  std::unique_ptr<Conv2dPassCpu> pass_;
  std::vector<Conversion> after_;
};

}  // namespace

Conv2dPassesCpu make_bf16_direct_conv2d(const Conv2dGeometry& geometry, CpuDevice& device, const OpTensors& tensors) {
  const auto wide = std::make_shared<const Float32Tensors>(device, tensors);
  const Tensor &x = tensors.inputs.at(0), &y = tensors.outputs.at(0), &weights = tensors.parameters.at(0);
  OpTensors in_float32 = tensors;
  in_float32.inputs[0] = wide->x;
  in_float32.outputs[0] = wide->y;
  in_float32.parameters[0] = wide->weights;
  if (!tensors.output_gradients.empty()) {
    in_float32.output_gradients[0] = wide->y;
    if (tensors.input_gradients.at(0)) in_float32.input_gradients[0] = wide->x;
  }
  Conv2dPassesCpu direct = make_direct_conv2d(geometry, device, in_float32), passes;
  const auto converted = [&](auto before, std::unique_ptr<Conv2dPassCpu> pass, auto after) {
    return std::make_unique<ConvertedPass>(wide, std::move(before), std::move(pass), std::move(after));
  };
  using Conversions = std::vector<ConvertedPass::Conversion>;
  passes.forward = converted(Conversions{{x, wide->x}, {weights, wide->weights}}, std::move(direct.forward),
                             Conversions{{wide->y, y}});
  if (!direct.weights_gradient) return passes;
  const Tensor& dz = tensors.output_gradients.at(0);
  passes.weights_gradient =
      converted(Conversions{{x, wide->x}, {dz, wide->y}}, std::move(direct.weights_gradient), Conversions{});
  if (!direct.data_gradient) return passes;
  // The weights gradient runs first and has already converted dz.
  passes.data_gradient =
      converted(Conversions{}, std::move(direct.data_gradient), Conversions{{wide->x, tensors.input_gradients.at(0)}});
  return passes;
}

}  // namespace carillon
