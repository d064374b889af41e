// The definition of depthwise_conv2d, and the op on a CPU. A thread processes whole images, one vector of channels at a
// time.
//
// The gradients of the weights are summed over groups of samples separately, and the groups' sums are added in order.
// The shapes and the instruction set fix the groups.
#include "kernels/depthwise_conv2d/depthwise_conv2d.h"

#include <algorithm>
#include <optional>

#include "carillon/core/parallel.h"
#include "kernels/depthwise_conv2d/depthwise_conv2d_vectors.h"
#include "kernels/shared/backend.h"
#include "kernels/shared/float_type.h"
#include "kernels/shared/thread_scratch.h"
#include "src/device/cpu_device.h"

namespace carillon {

CARILLON_DECLARE_FOR_ISAS(const DepthwiseKernels* depthwise_kernels())

const DepthwiseKernels& depthwise_kernels(Isa isa) {
  return *for_isa(
      isa, [] { return plain::depthwise_kernels(); }, [] { return avx2::depthwise_kernels(); },
      [] { return avx512::depthwise_kernels(); });
}

namespace {

DepthwiseAxis forward_axis(const SlidingWindow& axis) {
  return {
      .input = axis.input, .output = axis.output, .window = axis.window, .stride = axis.stride, .before = axis.before};
}

/// Returns the axis of the convolution that computes dx from dy.
DepthwiseAxis backward_axis(const SlidingWindow& axis) {
  return {.input = axis.output,
          .output = axis.input,
          .window = axis.window,
          .stride = 1,
          .before = axis.window - 1 - axis.before,
          .spacing = axis.stride};
}

/// Calls body(image, first channel) for all images and vectors of channels, on several threads.
template <typename Body>
void for_each_vector(std::int64_t images, std::int64_t vectors, std::int64_t size, const ThreadScratch& scratch,
                     const Body& body) {
  constexpr std::size_t floats_worth_a_thread = 2048;
  const auto count = static_cast<std::size_t>(images * vectors), item = static_cast<std::size_t>(size);
  parallel_items(count, item, scratch.grain(count * item, floats_worth_a_thread),
                 [&](std::size_t first, std::size_t last) {
                   for (auto k = static_cast<std::int64_t>(first); k < static_cast<std::int64_t>(last); ++k) {
                     body(k / vectors, k % vectors);
                   }
                 });
}

/// Computes `to`, the convolution of `from`.
class ConvolutionPass {
 public:
  ConvolutionPass(CpuDevice& device, const DepthwiseConvolution& convolution, const Tensor& from, const Tensor& to)
      : kernels_(depthwise_kernels(device.isa())),
        convolution_(convolution),
        from_(from),
        to_(to),
        scratch_(device, static_cast<std::size_t>(kernels_.convolution_scratch(convolution)) * sizeof(float)) {}

  /// weights: [window, window, channels], biases: [channels] or null.
  void run(const float* weights, const float* biases) const {
    const std::int64_t pixels = convolution_.vertical.output * convolution_.horizontal.output;
    const std::int64_t vectors = ceil_divide(convolution_.channels, kernels_.lanes);
    for_each_vector(from_.shape[0], vectors, pixels * kernels_.lanes, scratch_, [&](std::int64_t n, std::int64_t v) {
      kernels_.convolve(convolution_, sample_of(from_, n).as<const void>(), weights, biases, v * kernels_.lanes,
                        sample_of(to_, n).as<void>(), scratch_.mine<float>());
    });
  }

 private:
  const DepthwiseKernels& kernels_;
  DepthwiseConvolution convolution_;
  Tensor from_, to_;
  ThreadScratch scratch_;
};

/// The gradients of weights and biases.
class FilterGradientPass {
 public:
  FilterGradientPass(CpuDevice& device, const DepthwiseConvolution& convolution, const Tensor& x, const Tensor& dy)
      : kernels_(depthwise_kernels(device.isa())),
        convolution_(convolution),
        x_(x),
        dy_(dy),
        vectors_(ceil_divide(convolution.channels, kernels_.lanes)),
        vector_floats_((convolution.vertical.window * convolution.horizontal.window + 1) * kernels_.lanes),
        scratch_(device, static_cast<std::size_t>(kernels_.gradient_scratch(convolution)) * sizeof(float)) {
    constexpr std::int64_t sums_for_threads = 64;  // about groups_ * vectors_, if there are enough samples
    const std::int64_t samples = x.shape[0];
    group_samples_ = ceil_divide(samples, std::min(samples, ceil_divide(sums_for_threads, vectors_)));
    groups_ = ceil_divide(samples, group_samples_);
    sums_ = device.allocate(static_cast<std::size_t>(groups_ * vectors_ * vector_floats_) * sizeof(float));
  }

  /// Does not write to a tensor without data.
  void run(const Tensor& dw, const Tensor& db) const {
    const std::int64_t image = dy_.shape[1] * dy_.shape[2] * kernels_.lanes;
    for_each_vector(groups_, vectors_, group_samples_ * image, scratch_, [&](std::int64_t group, std::int64_t v) {
      float* const sums = sums_of(group, v);
      std::fill_n(sums, vector_floats_, 0.0f);
      const std::int64_t first = group * group_samples_, last = std::min(first + group_samples_, x_.shape[0]);
      for (std::int64_t n = first; n < last; ++n) {
        kernels_.add_gradients(convolution_, sample_of(x_, n).as<const void>(), sample_of(dy_, n).as<const void>(),
                               v * kernels_.lanes, sums, scratch_.mine<float>());
      }
    });
    for (std::int64_t v = 0; v < vectors_; ++v) add_groups(v, dw, db);
  }

 private:
  float* sums_of(std::int64_t group, std::int64_t vector) const {
    return static_cast<float*>(sums_.data()) + (group * vectors_ + vector) * vector_floats_;
  }

  void add_groups(std::int64_t vector, const Tensor& dw, const Tensor& db) const {
    float* const sums = sums_of(0, vector);
    for (std::int64_t group = 1; group < groups_; ++group) {
      const float* const from = sums_of(group, vector);
      for (std::int64_t i = 0; i < vector_floats_; ++i) sums[i] += from[i];
    }
    const std::int64_t lanes = kernels_.lanes, channel = vector * lanes, taps = vector_floats_ / lanes - 1;
    const std::int64_t count = std::min(lanes, convolution_.channels - channel);
    if (db) std::copy_n(sums + taps * lanes, count, db.floats().data() + channel);
    if (!dw) return;
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      std::copy_n(sums + tap * lanes, count, dw.floats().data() + tap * convolution_.channels + channel);
    }
  }

  const DepthwiseKernels& kernels_;
  DepthwiseConvolution convolution_;
  Tensor x_, dy_;
  std::int64_t vectors_, vector_floats_;  ///< number of channel vectors; number of floats of one vector's sums
  std::int64_t group_samples_, groups_;
  ThreadScratch scratch_;
  Buffer sums_;  ///< [groups][vectors][vector_floats]
};

class DepthwiseConv2dCpu final : public Op {
 public:
  DepthwiseConv2dCpu(const DepthwiseGeometry& g, CpuDevice& device, const OpTensors& tensors) : tensors_(tensors) {
    const Tensor &x = tensors.inputs.at(0), &y = tensors.outputs.at(0);
    const DepthwiseConvolution forward{.vertical = forward_axis(g.vertical),
                                       .horizontal = forward_axis(g.horizontal),
                                       .channels = x.shape[3],
                                       .is_bf16 = x.type == DType::bf16,
                                       .turned = false};
    forward_.emplace(device, forward, x, y);
    if (tensors.output_gradients.empty()) return;
    const Tensor& dy = tensors.output_gradients.at(0);
    if (tensors.input_gradients.at(0)) {
      DepthwiseConvolution backward = forward;
      backward.vertical = backward_axis(g.vertical);
      backward.horizontal = backward_axis(g.horizontal);
      backward.turned = true;
      input_gradient_.emplace(device, backward, dy, tensors.input_gradients[0]);
    }
    if (wanted(0) || wanted(1)) filter_gradient_.emplace(device, forward, x, dy);
  }

  void forward(Stream& /*stream*/) override {
    const bool has_biases = tensors_.parameters.size() > 1;
    forward_->run(weights(), has_biases ? tensors_.parameters[1].floats().data() : nullptr);
  }

  void backward(Stream& /*stream*/) override {
    if (filter_gradient_) filter_gradient_->run(gradient(0), gradient(1));
    if (input_gradient_) input_gradient_->run(weights(), nullptr);
  }

 private:
  const float* weights() const { return tensors_.parameters.at(0).floats().data(); }
  /// Returns the gradient of a parameter, or a tensor without data if backward does not compute the gradient.
  Tensor gradient(std::size_t parameter) const {
    return parameter < tensors_.parameter_gradients.size() ? tensors_.parameter_gradients[parameter] : Tensor{};
  }
  bool wanted(std::size_t parameter) const { return static_cast<bool>(gradient(parameter)); }

  OpTensors tensors_;
  std::optional<ConvolutionPass> forward_, input_gradient_;
  std::optional<FilterGradientPass> filter_gradient_;
};

class DepthwiseConv2dDefinition final : public OpDefinition {
 public:
  explicit DepthwiseConv2dDefinition(const DepthwiseGeometry& geometry) : geometry_(geometry) {}
  std::string_view type() const override { return "depthwise_conv2d"; }
  BackwardNeeds backward_needs() const override { return {.inputs = true, .outputs = false}; }
  std::shared_ptr<const OpDefinition> accumulating(DeviceKind device, DType /*type*/) const {
    if (!can_accumulate(device)) return nullptr;
    DepthwiseGeometry geometry = geometry_;
    geometry.accumulates_dx = true;
    return std::make_shared<DepthwiseConv2dDefinition>(geometry);
  }
  std::optional<int> output_shares_input(int output) const override {
    return geometry_.accumulates_dx && output == 1 ? std::optional(0) : std::nullopt;
  }
  std::optional<int> gradient_shares_output(int /*input*/) const override {
    return geometry_.accumulates_dx ? std::optional(1) : std::nullopt;
  }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    check(!geometry_.accumulates_dx || can_accumulate(context.device->kind()),
          "only a depthwise convolution with stride 1 on a GPU can add to a gradient");
    return on_device(
        context, [&] { return std::make_unique<DepthwiseConv2dCpu>(geometry_, as_cpu(*context.device), tensors); },
        [&] { return make_depthwise_conv2d_cuda(geometry_, context, tensors); });
  }

 private:
  bool can_accumulate(DeviceKind device) const { return device == DeviceKind::cuda && !geometry_.has_strides(); }

  DepthwiseGeometry geometry_;
};

const OpTraits depthwise_conv2d_traits{.accumulating = trait<&DepthwiseConv2dDefinition::accumulating>,
                                       .samples_are_independent = true};

}  // namespace

const OpType depthwise_conv2d_op = op_type<DepthwiseConv2dParams, depthwise_conv2d>("depthwise_conv2d");

Value depthwise_conv2d(Graph& graph, const std::string& name, Value x, const DepthwiseConv2dParams& params) {
  const Shape input = graph.shape(x);
  if (input.rank() != 4)
    fail(ExitCode::failed, "depthwise_conv2d {}: input {} is not [n, h, w, c]", name, input.text());
  const auto [vertical, horizontal] = params.windows(input);
  if (!vertical.pads_less_than_window() || !horizontal.pads_less_than_window())
    fail(ExitCode::failed, "depthwise_conv2d {}: the padding must be smaller than the kernel", name);
  const DepthwiseGeometry geometry{.vertical = vertical, .horizontal = horizontal};
  const std::int64_t channels = input[3];
  std::vector<int> parameters{graph.add_parameter(
      {name + "/weights", {vertical.window, horizontal.window, 1, channels}, params.weights, params.l2_factor})};
  if (params.biases) parameters.push_back(graph.add_parameter({name + "/biases", {channels}, *params.biases}));
  return graph.add_op({.name = name,
                       .definition = std::make_shared<DepthwiseConv2dDefinition>(geometry),
                       .inputs = {x},
                       .parameters = parameters,
                       .traits = depthwise_conv2d_traits,
                       .type = &depthwise_conv2d_op,
                       .attributes = attributes_of(params)},
                      {input[0], vertical.output, horizontal.output, channels});
}

}  // namespace carillon
