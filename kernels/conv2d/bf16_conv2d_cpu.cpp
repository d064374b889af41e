#include "kernels/conv2d/bf16_conv2d.h"

#include <algorithm>

#include "carillon/core/parallel.h"
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

/// A forward pass on expanded columns. The expanded columns are kept for the weights gradient, which reads them.
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

}  // namespace carillon
