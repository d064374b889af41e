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

CpuConvolution cpu_convolution(const Conv2dGeometry& geometry, const CpuSettings& settings, const Shape& filters,
                               const Shape& y) {
  if (settings.bf16_products && bf16_pays(filters)) return CpuConvolution::bf16;
  const ConvolutionMethod method = settings.convolution;
  if (method == ConvolutionMethod::direct || !winograd_can(geometry)) return CpuConvolution::direct;
  const bool takes = method == ConvolutionMethod::winograd || winograd_pays(filters, y);
  return takes ? CpuConvolution::winograd : CpuConvolution::direct;
}

std::unique_ptr<Op> make_conv2d_cpu(const Conv2dGeometry& geometry, const OpContext& context,
                                    const OpTensors& tensors) {
  CpuDevice& device = as_cpu(*context.device);
  const Shape &filters = tensors.parameters.at(0).shape, &y = tensors.outputs.at(0).shape;
  const auto make = [&] {
    switch (cpu_convolution(geometry, device.settings(), filters, y)) {
      case CpuConvolution::bf16:
        return make_bf16_conv2d;
      case CpuConvolution::winograd:
        return make_winograd_conv2d;
      case CpuConvolution::direct:
        break;
    }
    return make_direct_conv2d;
  }();
  return std::make_unique<Conv2dCpu>(make(geometry, device, tensors), geometry.relu, tensors);
}

}  // namespace carillon
