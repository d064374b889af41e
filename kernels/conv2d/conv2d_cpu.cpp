// conv2d on a CPU: runs the passes; backward first computes dz and the bias gradient.
#include <optional>

#include "kernels/conv2d/bf16_conv2d.h"
#include "kernels/conv2d/conv2d_passes_cpu.h"
#include "kernels/conv2d/winograd.h"
#include "kernels/shared/bias_relu_backward.h"

namespace carillon {
namespace {

class Conv2dCpu final : public Op {
 public:
  Conv2dCpu(Conv2dPassesCpu passes, bool relu, const OpTensors& tensors) : passes_(std::move(passes)) {
    if (tensors.parameter_gradients.size() < 2) return;  // no biases
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

bool takes_winograd(const Conv2dGeometry& geometry, ConvolutionMethod method, const Shape& filters, const Shape& y) {
  if (method == ConvolutionMethod::direct || !winograd_can(geometry)) return false;
  return method == ConvolutionMethod::winograd || winograd_pays(filters, y);
}

std::unique_ptr<Op> make_conv2d_cpu(const Conv2dGeometry& geometry, const OpContext& context,
                                    const OpTensors& tensors) {
  CpuDevice& device = as_cpu(*context.device);
  const Shape &filters = tensors.parameters.at(0).shape, &y = tensors.outputs.at(0).shape;
  const auto make = [&] {
    if (tensors.inputs.at(0).type == DType::bf16) return make_bf16_conv2d;
    const bool winograd = takes_winograd(geometry, device.settings().convolution, filters, y);
    return winograd ? make_winograd_conv2d : make_direct_conv2d;
  }();
  return std::make_unique<Conv2dCpu>(make(geometry, device, tensors), geometry.relu, tensors);
}

}  // namespace carillon
