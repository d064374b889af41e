// Chooses the Winograd convolution of each of an op's passes.
#include "kernels/conv2d/conv2d_passes_cpu.h"
#include "kernels/conv2d/winograd.h"
#include "kernels/conv2d/winograd_kernels.h"

namespace carillon {

bool winograd_can(const Conv2dGeometry& geometry) {
  const SlidingWindow &rows = geometry.vertical, &columns = geometry.horizontal;
  return is_plain(geometry) && rows.stride == 1 && columns.stride == 1 && rows.window == columns.window &&
         winograd_kernels(Isa::plain, rows.window) != nullptr;
}

bool winograd_pays(const Shape& filters, const Shape& y) {
  constexpr std::int64_t least_extent = 3;  // smaller images use only a small part of a tile of 4
  if (y[1] < least_extent || y[2] < least_extent) return false;
  const std::int64_t kernel = filters[0], channels = filters[2];
  if (channels <= NarrowWinogradKernels::max_channels) return kernel == 5 && channels >= 3 && filters[3] >= 32;
  constexpr std::int64_t least_channels = 16;  // with fewer channels, the transforms cost more than the products save
  return channels >= least_channels && filters[3] >= least_channels;
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

}  // namespace carillon
