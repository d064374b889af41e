#include "kernels/conv2d/conv2d_passes_cpu.h"
#include "kernels/conv2d/winograd.h"

namespace carillon {
namespace {

template <typename Convolution>
class WinogradPass final : public Conv2dPassCpu {
 public:
  WinogradPass(CpuDevice& device, const typename Convolution::Task& task) : convolution_(device, task) {}
  void run() override { convolution_.run(); }

 private:
  Convolution convolution_;
};

}  // namespace

Conv2dPassesCpu make_winograd_conv2d(const Conv2dGeometry& geometry, CpuDevice& device, const OpTensors& tensors) {
  const Tensor &x = tensors.inputs.at(0), &y = tensors.outputs.at(0), &weights = tensors.parameters.at(0);
  const std::int64_t rows_before = geometry.vertical.before, columns_before = geometry.horizontal.before;
  Conv2dPassesCpu passes;
  using Convolve = WinogradPass<WinogradConvolution>;
  passes.forward = std::make_unique<Convolve>(device, WinogradConvolution::Task{.x = x,
                                                                                .filters = weights,
                                                                                .bias = tensors.parameters.at(1),
                                                                                .y = y,
                                                                                .rows_before = rows_before,
                                                                                .columns_before = columns_before,
                                                                                .relu = geometry.relu});
  if (tensors.parameter_gradients.empty()) return passes;
  const Tensor &dx = tensors.input_gradients.at(0), &dz = tensors.output_gradients.at(0);
  passes.weights_gradient = std::make_unique<WinogradPass<WinogradFilterGradient>>(
      device, WinogradFilterGradient::Task{.x = x,
                                           .dz = dz,
                                           .dw = tensors.parameter_gradients.at(0),
                                           .rows_before = rows_before,
                                           .columns_before = columns_before});
  if (!dx) return passes;
  passes.data_gradient = std::make_unique<Convolve>(device, WinogradConvolution::Task{.x = dz,
                                                                                      .filters = weights,
                                                                                      .y = dx,
                                                                                      .rows_before = rows_before,
                                                                                      .columns_before = columns_before,
                                                                                      .rotated = true});
  return passes;
}

}  // namespace carillon
