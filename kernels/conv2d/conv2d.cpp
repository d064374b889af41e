// The definition of conv2d, and the op on a CPU. The op chooses and runs the passes (conv2d_passes_cpu.h). Backward
// first computes dz and the bias gradient.
#include "kernels/conv2d/conv2d.h"

#include <optional>

#include "kernels/conv2d/bf16_conv2d.h"
#include "kernels/conv2d/conv2d_passes_cpu.h"
#include "kernels/conv2d/winograd.h"
#include "kernels/conv2d/winograd_kernels.h"
#include "kernels/shared/backend.h"
#include "kernels/shared/rows_cpu.h"

namespace carillon {
namespace {

class Conv2dCpu final : public Op {
 public:
  Conv2dCpu(Conv2dPassesCpu passes, bool relu, const OpTensors& tensors) : passes_(std::move(passes)) {
    if (tensors.parameter_gradients.size() < 2) return;  // the op has no biases
    bias_relu_.emplace(relu ? tensors.outputs.at(0) : Tensor{}, tensors.output_gradients.at(0),
                       tensors.parameter_gradients.at(1));
  }

  void forward(Stream& /*stream*/) override { passes_.forward->run(); }

  void backward(Stream& /*stream*/) override {
    if (bias_relu_) bias_relu_->run();
    passes_.weights_gradient->run();
    if (passes_.data_gradient) passes_.data_gradient->run();
  }

 private:
  Conv2dPassesCpu passes_;
  std::optional<BiasReluBackward> bias_relu_;
};

}  // namespace

bool winograd_can(const Conv2dGeometry& geometry) {
  const SlidingWindow &rows = geometry.vertical, &columns = geometry.horizontal;
  return is_plain(geometry) && rows.stride == 1 && columns.stride == 1 && rows.window == columns.window &&
         winograd_kernels(Isa::plain, rows.window) != nullptr;
}

bool winograd_pays(const Shape& filters, const Shape& y) {
  constexpr std::int64_t least_extent = 3;  // smaller images use only a small part of a tile with m = 4
  if (y[1] < least_extent || y[2] < least_extent) return false;
  const std::int64_t kernel = filters[0], channels = filters[2];
  if (channels <= NarrowWinogradKernels::max_channels) return kernel == 5 && channels >= 3 && filters[3] >= 32;
  constexpr std::int64_t least_channels = 16;  // with fewer channels, the transforms take more time than the products
                                               // save
  return channels >= least_channels && filters[3] >= least_channels;
}

bool takes_winograd(const Conv2dGeometry& geometry, ConvolutionMethod method, const Shape& filters, const Shape& y) {
  if (method == ConvolutionMethod::direct || !winograd_can(geometry)) return false;
  return method == ConvolutionMethod::winograd || winograd_pays(filters, y);
}

Conv2dPassesCpu make_winograd_conv2d(const Conv2dGeometry& geometry, CpuDevice& device, const OpTensors& tensors) {
  const Tensor &x = tensors.inputs.at(0), &y = tensors.outputs.at(0), &weights = tensors.parameters.at(0);
  const std::int64_t rows_before = geometry.vertical.before, columns_before = geometry.horizontal.before;
  const bool narrow = x.shape[3] <= NarrowWinogradKernels::max_channels;
  const auto make = [&](const auto& task) {
    return narrow ? make_narrow_winograd(device, task) : make_wide_winograd(device, task);
  };
  Conv2dPassesCpu passes;
  passes.forward = make(WinogradConvolution{.x = x,
                                            .filters = weights,
                                            .bias = biases_of(tensors),
                                            .y = y,
                                            .rows_before = rows_before,
                                            .columns_before = columns_before,
                                            .relu = geometry.relu});
  if (tensors.parameter_gradients.empty()) return passes;
  const Tensor &dx = tensors.input_gradients.at(0), &dz = tensors.output_gradients.at(0);
  passes.weights_gradient = make(WinogradFilterGradient{.x = x,
                                                        .dz = dz,
                                                        .dw = tensors.parameter_gradients.at(0),
                                                        .rows_before = rows_before,
                                                        .columns_before = columns_before});
  if (!dx) return passes;
  passes.data_gradient = make_wide_winograd(device, WinogradConvolution{.x = dz,
                                                                        .filters = weights,
                                                                        .y = dx,
                                                                        .rows_before = rows_before,
                                                                        .columns_before = columns_before,
                                                                        .rotated = true});
  return passes;
}

std::unique_ptr<Op> make_conv2d_cpu(const Conv2dGeometry& geometry, const OpContext& context,
                                    const OpTensors& tensors) {
  CpuDevice& device = as_cpu(*context.device);
  const Shape &filters = tensors.parameters.at(0).shape, &y = tensors.outputs.at(0).shape;
  const auto make = [&] {
    if (tensors.inputs.at(0).type == DType::bf16) {
      return is_plain(geometry) ? make_bf16_conv2d : make_bf16_direct_conv2d;
    }
    const bool winograd = takes_winograd(geometry, device.settings().convolution, filters, y);
    return winograd ? make_winograd_conv2d : make_direct_conv2d;
  }();
  return std::make_unique<Conv2dCpu>(make(geometry, device, tensors), geometry.relu, tensors);
}

namespace {

class Conv2dDefinition final : public OpDefinition {
 public:
  Conv2dDefinition(const Conv2dGeometry& geometry, bool has_biases) : geometry_(geometry), has_biases_(has_biases) {}
  const Conv2dGeometry& geometry() const { return geometry_; }
  std::string_view type() const override { return "conv2d"; }
  BackwardNeeds backward_needs() const override { return {.inputs = true, .outputs = geometry_.relu}; }
  std::shared_ptr<const OpDefinition> with_activation(ActivationKind activation) const {
    if (activation != ActivationKind::relu || !has_biases_)
      return nullptr;  // in networks, a batch norm follows a convolution without biases
    Conv2dGeometry with_relu = geometry_;
    with_relu.relu = true;
    return std::make_shared<Conv2dDefinition>(with_relu, has_biases_);
  }
  std::shared_ptr<const OpDefinition> accumulating(DeviceKind device, DType type) const {
    if (!can_accumulate(device, type)) return nullptr;
    Conv2dGeometry geometry = geometry_;
    geometry.accumulates_dx = true;
    return std::make_shared<Conv2dDefinition>(geometry, has_biases_);
  }
  std::optional<int> output_shares_input(int output) const override {
    return geometry_.accumulates_dx && output == 1 ? std::optional(0) : std::nullopt;
  }
  std::optional<int> gradient_shares_output(int /*input*/) const override {
    return geometry_.accumulates_dx ? std::optional(1) : std::nullopt;
  }
  std::shared_ptr<const OpDefinition> without_biases() const {
    return has_biases_ && !geometry_.relu ? std::make_shared<Conv2dDefinition>(geometry_, false) : nullptr;
  }
  /// With 1, 3 or 4 channels, cuDNN's bfloat16 plans (9.19, H200) pad both operands to 8 channels in each pass. The
  /// plans need a workspace for the padded operands (conv2d_plans_cuda_test). Products of patches need no padding. If
  /// there are groups, the images are not padded, because additional channels would change which channels each group
  /// reads.
  std::int64_t preferred_channels(const Shape& input, DType type) const {
    constexpr std::int64_t multiple = 8;
    if (type != DType::bf16 || geometry_.groups > 1 || windows_tile_input(geometry_)) return input[3];
    return (input[3] + multiple - 1) / multiple * multiple;
  }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    check(!geometry_.accumulates_dx || can_accumulate(context.device->kind(), tensors.inputs.at(0).type),
          "only a plain convolution in bf16 on a CPU can add to a gradient");
    return on_device(
        context, [&] { return make_conv2d_cpu(geometry_, context, tensors); },
        [&] { return make_conv2d_cuda(geometry_, context, tensors); });
  }

 private:
  bool can_accumulate(DeviceKind device, DType type) const {
    return device == DeviceKind::cpu && type == DType::bf16 && is_plain(geometry_);
  }

  Conv2dGeometry geometry_;
  bool has_biases_;
};

const OpTraits conv2d_traits{
    .with_activation = trait<&Conv2dDefinition::with_activation>,
    .without_biases = trait<&Conv2dDefinition::without_biases>,
    .accumulating = trait<&Conv2dDefinition::accumulating>,
    .preferred_channels = trait<&Conv2dDefinition::preferred_channels>,
    .compute_copy_format =
        [](int parameter) { return parameter == 0 ? ComputeCopyFormat::filter_major : ComputeCopyFormat::same_layout; },
    .samples_are_independent = true,
};

/// With groups, the input has more channels than the weights. Compute copies treat additional channels as padding, so a
/// convolution with groups has no compute copies.
OpTraits grouped_conv2d_traits() {
  OpTraits traits = conv2d_traits;
  traits.compute_copy_format = nullptr;
  return traits;
}

bool is_plain(const SlidingWindow& axis) {
  return (axis.dilation == 1 || axis.window == 1) && axis.pads_less_than_window();
}

bool is_tiled(const SlidingWindow& axis) { return axis.stride == axis.window && axis.before == 0 && axis.after == 0; }

}  // namespace

bool is_plain(const Conv2dGeometry& geometry) {
  return geometry.groups == 1 && is_plain(geometry.vertical) && is_plain(geometry.horizontal);
}

bool windows_tile_input(const Conv2dGeometry& geometry) {
  return is_plain(geometry) && is_tiled(geometry.vertical) && is_tiled(geometry.horizontal);
}

const OpType conv2d_op = op_type<Conv2dParams, conv2d>("conv2d");

Value conv2d(Graph& graph, const std::string& name, Value x, const Conv2dParams& params) {
  const Shape input = graph.shape(x);
  if (input.rank() != 4) fail(ExitCode::failed, "conv2d {}: input {} is not [n, h, w, c]", name, input.text());
  const std::int64_t in = input[3], filters = params.filters, groups = params.groups;
  if (groups < 1 || in % groups != 0 || filters % groups != 0)
    fail(ExitCode::failed, "conv2d {}: {} groups do not divide {} channels and {} filters", name, groups, in, filters);
  const auto [vertical, horizontal] = params.windows(input);
  const Conv2dGeometry geometry{.vertical = vertical, .horizontal = horizontal, .groups = groups};
  std::vector<int> parameters{graph.add_parameter({name + "/weights",
                                                   {vertical.window, horizontal.window, in / groups, filters},
                                                   params.weights,
                                                   params.l2_factor,
                                                   params.trains_weights})};
  if (params.biases) parameters.push_back(graph.add_parameter({name + "/biases", {filters}, *params.biases}));
  return graph.add_op({.name = name,
                       .definition = std::make_shared<Conv2dDefinition>(geometry, params.biases.has_value()),
                       .inputs = {x},
                       .parameters = parameters,
                       .traits = groups == 1 ? conv2d_traits : grouped_conv2d_traits(),
                       .type = &conv2d_op,
                       .attributes = attributes_of(params)},
                      {input[0], vertical.output, horizontal.output, filters});
}

const Conv2dGeometry* conv2d_geometry(const OpDefinition& definition) {
  const auto* convolution = dynamic_cast<const Conv2dDefinition*>(&definition);
  return convolution == nullptr ? nullptr : &convolution->geometry();
}

std::vector<std::string> winograd_convolutions(const Graph& graph, ConvolutionMethod method) {
  std::vector<std::string> names;
  if (graph.arithmetic() == Arithmetic::bf16) return names;
  for (const Graph::Node& node : graph.nodes()) {
    const Conv2dGeometry* geometry = conv2d_geometry(*node.definition);
    if (geometry == nullptr) continue;
    const Shape& filters = graph.parameters()[node.parameters.at(0)].shape;
    const Shape& y = graph.values()[node.outputs.at(0)].shape;
    if (takes_winograd(*geometry, method, filters, y)) names.push_back(node.name);
  }
  return names;
}

}  // namespace carillon
