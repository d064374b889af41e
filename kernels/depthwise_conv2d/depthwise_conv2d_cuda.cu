// depthwise_conv2d on a GPU.
#include <algorithm>
#include <optional>

#include "kernels/depthwise_conv2d/depthwise_conv2d.h"
#include "kernels/depthwise_conv2d/depthwise_conv2d_kernels.h"
#include "kernels/shared/block_kernel.h"
#include "kernels/shared/float_type.h"
#include "kernels/shared/gradient_sums.h"
#include "kernels/shared/launch.cuh"

namespace carillon {
namespace {

class DepthwiseConv2dCuda final : public Op {
 public:
  DepthwiseConv2dCuda(const DepthwiseGeometry& geometry, Device& device, const OpTensors& tensors)
      : geometry_(geometry), tensors_(tensors) {
    check_index_limit("depthwise_conv2d", std::max(x().shape.element_count(), y().shape.element_count()), INT32_MAX);
    if (parameter_gradient(0)) {
      with_form(geometry_, [&](auto, auto n, auto taps, auto) {
        const std::int64_t blocks = cut(n, taps).item_blocks();
        if (blocks > 1) sums_ = device.allocate(static_cast<std::size_t>(blocks) * parameter_gradient(0).bytes());
      });
    }
    if (const Tensor db = parameter_gradient(1)) bias_gradient_.emplace(device, Tensor{}, dy(), db);
  }

  void forward(Stream& stream) override {
    const bool has_biases = tensors_.parameters.size() > 1;
    convolve({geometry_.vertical, geometry_.horizontal}, x(),
             has_biases ? static_cast<const float*>(tensors_.parameters[1].data) : nullptr, false, y(), stream);
  }

  void backward(Stream& stream) override {
    if (bias_gradient_) bias_gradient_->run(stream);
    if (parameter_gradient(0)) find_weights_gradient(stream);
    if (tensors_.input_gradients.at(0)) find_input_gradient(stream);
  }

 private:
  const Tensor& x() const { return tensors_.inputs.at(0); }
  const Tensor& y() const { return tensors_.outputs.at(0); }
  const Tensor& dy() const { return tensors_.output_gradients.at(0); }
  const float* weights() const { return static_cast<const float*>(tensors_.parameters.at(0).data); }
  std::int64_t channels() const { return x().shape[3]; }
  /// Returns the gradient of a parameter, or a tensor without data if backward does not compute the gradient.
  Tensor parameter_gradient(std::size_t number) const {
    return number < tensors_.parameter_gradients.size() ? tensors_.parameter_gradients[number] : Tensor{};
  }
  DepthwiseCut cut(int n, int taps) const {
    return depthwise_cut(packed_pool(geometry_, channels(), n), x().shape[0], taps);
  }

  /// Calls body(type of the elements, n, taps, stride).
  template <typename Body>
  void with_form(const DepthwiseGeometry& geometry, const Body& body) const {
    with_float_type(x().type, [&]<typename T>(std::type_identity<T> type) {
      with_depthwise_form(geometry.horizontal, channels(),
                          [&](auto n, auto taps, auto stride) { body(type, n, taps, stride); });
    });
  }

  /// Writes the result to `to`. If the geometry accumulates, adds the result to `to` instead.
  void convolve(const DepthwiseGeometry& geometry, const Tensor& from, const float* biases, bool turned,
                const Tensor& to, Stream& stream) const {
    with_form(geometry, [&]<typename T, int n, int taps, int stride>(
                            std::type_identity<T>, std::integral_constant<int, n>, std::integral_constant<int, taps>,
                            std::integral_constant<int, stride>) {
      const PackedPool pool = packed_pool(geometry, channels(), n);
      const std::int64_t lines = to.shape[0] * to.shape[1] * depthwise_column_blocks(pool.horizontal);
      launch(ForEachElement{DepthwiseConvolve<T, n, taps, stride>{.pool = pool,
                                                                  .x = static_cast<const T*>(from.data),
                                                                  .weights = weights(),
                                                                  .biases = biases,
                                                                  .y = static_cast<T*>(to.data),
                                                                  .turned = turned,
                                                                  .adds = geometry.accumulates_dx},
                            lines * pool.packs},
             stream);
    });
  }

  void find_weights_gradient(Stream& stream) const {
    const Tensor dw = parameter_gradient(0);
    float* const to = static_cast<float*>(dw.data);
    float* const sums = sums_.data() != nullptr ? static_cast<float*>(sums_.data()) : to;
    with_form(geometry_, [&]<typename T, int n, int taps, int stride>(
                             std::type_identity<T>, std::integral_constant<int, n>, std::integral_constant<int, taps>,
                             std::integral_constant<int, stride>) {
      launch(DepthwiseFilterGradient<T, n, taps, stride>{.pool = packed_pool(geometry_, channels(), n),
                                                         .cut = cut(n, taps),
                                                         .x = static_cast<const T*>(x().data),
                                                         .dy = static_cast<const T*>(dy().data),
                                                         .sums = sums},
             stream);
      const std::int64_t count = dw.shape.element_count();
      if (sums != to) launch(ForEachElement{SumBlocks{sums, cut(n, taps).item_blocks(), count, to}, count}, stream);
    });
  }

  void find_input_gradient(Stream& stream) const {
    const Tensor& dx = tensors_.input_gradients.at(0);
    if (!geometry_.has_strides()) {
      return convolve({turned_axis(geometry_.vertical), turned_axis(geometry_.horizontal), geometry_.accumulates_dx},
                      dy(), nullptr, true, dx, stream);
    }
    with_form(geometry_, [&]<typename T, int n>(std::type_identity<T>, std::integral_constant<int, n>, auto, auto) {
      launch(ForEachElement{DepthwiseInputGradient<T, n>{.pool = packed_pool(geometry_, channels(), n),
                                                         .dy = static_cast<const T*>(dy().data),
                                                         .weights = weights(),
                                                         .dx = static_cast<T*>(dx.data)},
                            dx.shape.element_count() / n},
             stream);
    });
  }

  DepthwiseGeometry geometry_;
  OpTensors tensors_;
  Buffer sums_;  ///< memory for the sums of DepthwiseFilterGradient; empty if one block has all items
  std::optional<BiasReluBackwardCuda> bias_gradient_;
};

}  // namespace

std::unique_ptr<Op> make_depthwise_conv2d_cuda(const DepthwiseGeometry& geometry, const OpContext& context,
                                               const OpTensors& tensors) {
  return std::make_unique<DepthwiseConv2dCuda>(geometry, *context.device, tensors);
}

}  // namespace carillon
