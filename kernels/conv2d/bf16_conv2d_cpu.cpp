#include "kernels/conv2d/bf16_conv2d.h"

#include "kernels/conv2d/bf16_passes_cpu.h"

namespace carillon {

bool bf16_pays(const Shape& filters) {
  constexpr std::int64_t least = 16;
  return filters[2] >= least && filters[3] >= least;
}

Conv2dPassesCpu make_bf16_conv2d(const Conv2dGeometry& geometry, CpuDevice& device, const OpTensors& tensors) {
  const Tensor &x = tensors.inputs.at(0), &y = tensors.outputs.at(0), &weights = tensors.parameters.at(0);
  Conv2dPassesCpu passes;
  passes.forward = make_bf16_pass(device, Bf16Convolution{.source = x,
                                                          .filters = weights,
                                                          .bias = biases_of(tensors),
                                                          .target = y,
                                                          .rows = GatherAxis::forward_of(geometry.vertical),
                                                          .columns = GatherAxis::forward_of(geometry.horizontal),
                                                          .relu = geometry.relu});
  if (tensors.parameter_gradients.empty()) return passes;
  const Tensor &dx = tensors.input_gradients.at(0), &dz = tensors.output_gradients.at(0);
  passes.weights_gradient = make_bf16_pass(
      device, Bf16WeightsGradient{x, dz, tensors.parameter_gradients.at(0), geometry.vertical, geometry.horizontal});
  if (!dx) return passes;
  passes.data_gradient =
      make_bf16_pass(device, Bf16Convolution{.source = dz,
                                             .filters = weights,
                                             .bias = {},
                                             .target = dx,
                                             .rows = GatherAxis::backward_of(geometry.vertical),
                                             .columns = GatherAxis::backward_of(geometry.horizontal)});
  return passes;
}

}  // namespace carillon
