// The CPU form of conv2d: oneDNN's convolutions on plain NHWC activations.
//
// Weights are reordered into the format that each primitive asks for at every run, and their gradient back: they are
// small (0.4 MB for 5x5x64x64) beside the work, and the flat parameter array stays the only copy.
#include <dnnl.hpp>
#include <optional>
#include <unordered_map>

#include "kernels/conv2d/conv2d.h"
#include "kernels/shared/bias_relu_backward.h"
#include "kernels/shared/onednn.h"
#include "src/device/cpu_device.h"

namespace carillon {
namespace {

using dnnl::memory;

/// oneDNN's descriptions of the tensors: logical extents in its order, as they lie in ours.
memory::desc activations_desc(const Tensor& t) {
  const Shape& s = t.shape;
  return {{s[0], s[3], s[1], s[2]}, onednn_type(t.type), memory::format_tag::nhwc};
}
memory::desc weights_desc(const Tensor& t, memory::format_tag format) {
  const Shape& s = t.shape;
  return {{s[3], s[2], s[0], s[1]}, onednn_type(t.type), format};
}
memory::desc biases_desc(const Tensor& t) { return {{t.shape[0]}, onednn_type(t.type), memory::format_tag::x}; }

/// Weights (or their gradient) in TensorFlow's layout, and the same in a primitive's own format.
class ReorderedWeights {
 public:
  ReorderedWeights(CpuDevice& device, const Tensor& plain, const memory::desc& inner)
      : stream_(device.dnnl_stream()),
        plain_(weights_desc(plain, memory::format_tag::hwio), device.engine(), plain.data),
        inner_(plain_.get_desc() == inner ? plain_ : memory(inner, device.engine())),
        to_inner_(plain_, inner_),
        to_plain_(inner_, plain_),
        same_(plain_.get_desc() == inner) {}

  const memory& inner() const { return inner_; }
  void load() {
    if (!same_) to_inner_.execute(stream_, plain_, inner_);
  }
  void store() {
    if (!same_) to_plain_.execute(stream_, inner_, plain_);
  }

 private:
  dnnl::stream stream_;
  memory plain_, inner_;
  dnnl::reorder to_inner_, to_plain_;
  bool same_;
};

class Conv2dCpu final : public Op {
 public:
  Conv2dCpu(const Conv2dGeometry& geometry, CpuDevice& device, const OpTensors& tensors)
      : stream_(device.dnnl_stream()) {
    const Tensor &x = tensors.inputs.at(0), &y = tensors.outputs.at(0);
    const Tensor &weights = tensors.parameters.at(0), &biases = tensors.parameters.at(1);
    const OnednnConvolution convolution{
        .src = activations_desc(x),
        .weights = weights_desc(weights, memory::format_tag::any),
        .bias = biases_desc(biases),
        .dst = activations_desc(y),
        .strides = {geometry.vertical.stride, geometry.horizontal.stride},
        .padding_before = {geometry.vertical.before, geometry.horizontal.before},
        .padding_after = {geometry.vertical.after, geometry.horizontal.after},
    };
    const auto forward = convolution.forward(device.engine(), geometry.relu);
    forward_weights_.emplace(device, weights, forward.weights_desc());
    forward_ = dnnl::convolution_forward(forward);
    forward_arguments_ = {{DNNL_ARG_SRC, memory(convolution.src, device.engine(), x.data)},
                          {DNNL_ARG_WEIGHTS, forward_weights_->inner()},
                          {DNNL_ARG_BIAS, memory(convolution.bias, device.engine(), biases.data)},
                          {DNNL_ARG_DST, memory(convolution.dst, device.engine(), y.data)}};
    if (!tensors.parameter_gradients.empty()) make_backward(geometry, device, tensors, convolution, forward);
  }

  void forward(Stream& /*stream*/) override {
    forward_weights_->load();
    forward_.execute(stream_, forward_arguments_);
  }

  void backward(Stream& /*stream*/) override {
    bias_relu_->run();
    weights_backward_.execute(stream_, weights_backward_arguments_);
    weights_gradient_->store();
    if (!data_weights_) return;
    data_weights_->load();
    data_backward_.execute(stream_, data_backward_arguments_);
  }

 private:
  void make_backward(const Conv2dGeometry& geometry, CpuDevice& device, const OpTensors& tensors,
                     const OnednnConvolution& convolution, const dnnl::convolution_forward::primitive_desc& forward) {
    const Tensor &dx = tensors.input_gradients.at(0), &dy = tensors.output_gradients.at(0);
    bias_relu_.emplace(geometry.relu ? tensors.outputs.at(0) : Tensor{}, dy, tensors.parameter_gradients.at(1));
    const memory dz(convolution.dst, device.engine(), dy.data);

    const auto by_weights = convolution.backward_weights(device.engine(), forward);
    weights_gradient_.emplace(device, tensors.parameter_gradients.at(0), by_weights.diff_weights_desc());
    weights_backward_ = dnnl::convolution_backward_weights(by_weights);
    weights_backward_arguments_ = {{DNNL_ARG_SRC, forward_arguments_.at(DNNL_ARG_SRC)},
                                   {DNNL_ARG_DIFF_DST, dz},
                                   {DNNL_ARG_DIFF_WEIGHTS, weights_gradient_->inner()}};
    if (!dx) return;
    const auto by_data = convolution.backward_data(device.engine(), forward);
    data_weights_.emplace(device, tensors.parameters.at(0), by_data.weights_desc());
    data_backward_ = dnnl::convolution_backward_data(by_data);
    data_backward_arguments_ = {{DNNL_ARG_DIFF_DST, dz},
                                {DNNL_ARG_WEIGHTS, data_weights_->inner()},
                                {DNNL_ARG_DIFF_SRC, memory(convolution.src, device.engine(), dx.data)}};
  }

  using Arguments = std::unordered_map<int, memory>;

  dnnl::stream stream_;
  dnnl::convolution_forward forward_;
  dnnl::convolution_backward_weights weights_backward_;
  dnnl::convolution_backward_data data_backward_;
  Arguments forward_arguments_, weights_backward_arguments_, data_backward_arguments_;
  std::optional<ReorderedWeights> forward_weights_, weights_gradient_, data_weights_;
  std::optional<BiasReluBackward> bias_relu_;
};

}  // namespace

std::unique_ptr<Op> make_conv2d_cpu(const Conv2dGeometry& geometry, const OpContext& context,
                                    const OpTensors& tensors) {
  return std::make_unique<Conv2dCpu>(geometry, as_cpu(*context.device), tensors);
}

}  // namespace carillon
