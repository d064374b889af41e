// Pooling on a GPU. In training, the forward pass of max_pool stores the position of each maximum, one byte per output.
#include <algorithm>
#include <optional>

#include "kernels/pool/pool.h"
#include "kernels/pool/pool_kernels.h"
#include "kernels/shared/block_kernel.h"
#include "kernels/shared/float_type.h"
#include "kernels/shared/gradient_sums.h"
#include "kernels/shared/launch.cuh"

namespace carillon {
namespace {

class MaxPoolCuda final : public Op {
 public:
  MaxPoolCuda(const MaxPoolForm& form, Device& device, const OpTensors& tensors)
      : geometry_(form.geometry),
        x_(tensors.inputs.at(0)),
        y_(tensors.outputs.at(0)),
        biases_(tensors.parameters.empty() ? Tensor{} : tensors.parameters[0]) {
    check_index_limit("max_pool", std::max(x_.shape.element_count(), y_.shape.element_count()));
    if (tensors.input_gradients.empty()) return;
    dx_ = tensors.input_gradients.at(0);
    dy_ = tensors.output_gradients.at(0);
    if (form.has_second_gradient) second_ = tensors.output_gradients.at(1);
    if (biases_) bias_relu_backward_.emplace(device, relu_output(), dy_, tensors.parameter_gradients.at(0));
    if (dx_) where_ = device.allocate(static_cast<std::size_t>(y_.shape.element_count()));
  }

  void forward(Stream& stream) override {
    with_packs([&]<typename T, int n>(std::type_identity<T>, std::integral_constant<int, n>) {
      with_fixed_window(geometry_, [&]<int fixed>(std::integral_constant<int, fixed>) {
        launch(ForEachElement{MaxPoolForward<T, n, fixed>{.pool = packed_pool(geometry_, channels(), n),
                                                          .relu = geometry_.relu,
                                                          .biases = static_cast<const float*>(biases_.data),
                                                          .x = static_cast<const T*>(x_.data),
                                                          .y = static_cast<T*>(y_.data),
                                                          .where = static_cast<std::uint8_t*>(where_.data())},
                              y_.shape.element_count() / n},
               stream);
      });
    });
  }

  void backward(Stream& stream) override {
    if (bias_relu_backward_) bias_relu_backward_->run(stream);
    if (!dx_) return;
    const Tensor y = bias_relu_backward_ ? Tensor{} : relu_output();  // bias_relu_backward_ has applied the ReLU to dy
    with_packs([&]<typename T, int n>(std::type_identity<T>, std::integral_constant<int, n>) {
      with_windows_over(geometry_, [&]<int over>(std::integral_constant<int, over>) {
        launch(ForEachElement{MaxPoolBackward<T, n, over>{.pool = packed_pool(geometry_, channels(), n),
                                                          .y = static_cast<const T*>(y.data),
                                                          .dy = static_cast<const T*>(dy_.data),
                                                          .second = static_cast<const T*>(second_.data),
                                                          .where = static_cast<const std::uint8_t*>(where_.data()),
                                                          .dx = static_cast<T*>(dx_.data)},
                              x_.shape.element_count() / n},
               stream);
      });
    });
  }

 private:
  std::int64_t channels() const { return x_.shape[3]; }
  /// Returns y if the op has a ReLU, otherwise a tensor without data.
  Tensor relu_output() const { return geometry_.relu ? y_ : Tensor{}; }

  /// Calls body(type of the elements, elements per pack).
  template <typename Body>
  void with_packs(const Body& body) const {
    with_float_type(x_.type, [&]<typename T>(std::type_identity<T> type) {
      with_pack_size<T>(channels(), [&](auto n) { body(type, n); });
    });
  }

  MaxPoolGeometry geometry_;
  Tensor x_, y_, biases_, dx_, dy_, second_;                ///< biases_, second_: a tensor without data if there are
                                                            ///< none
  Buffer where_;                                            ///< [y]: uint8
  std::optional<BiasReluBackwardCuda> bias_relu_backward_;  ///< only if the op has biases
};

class AvgPoolCuda final : public Op {
 public:
  AvgPoolCuda(const AvgPoolGeometry& geometry, const OpTensors& tensors) : geometry_(geometry), tensors_(tensors) {
    check_index_limit("avg_pool", std::max(x().shape.element_count(), y().shape.element_count()));
  }

  void forward(Stream& stream) override {
    with_packs([&]<typename T, int n>(std::type_identity<T>, std::integral_constant<int, n>) {
      launch(ForEachElement{AvgPoolForward<T, n>{.pool = packed_pool(geometry_, channels(), n),
                                                 .x = static_cast<const T*>(x().data),
                                                 .y = static_cast<T*>(y().data),
                                                 .counts_padding = geometry_.counts_padding},
                            y().shape.element_count() / n},
             stream);
    });
  }

  void backward(Stream& stream) override {
    if (!tensors_.input_gradients[0]) return;
    with_packs([&]<typename T, int n>(std::type_identity<T>, std::integral_constant<int, n>) {
      launch(ForEachElement{AvgPoolBackward<T, n>{.pool = packed_pool(geometry_, channels(), n),
                                                  .dy = static_cast<const T*>(tensors_.output_gradients[0].data),
                                                  .dx = static_cast<T*>(tensors_.input_gradients[0].data),
                                                  .counts_padding = geometry_.counts_padding},
                            x().shape.element_count() / n},
             stream);
    });
  }

 private:
  const Tensor& x() const { return tensors_.inputs[0]; }
  const Tensor& y() const { return tensors_.outputs[0]; }
  std::int64_t channels() const { return x().shape[3]; }

  /// Calls body(type of the elements, elements per pack).
  template <typename Body>
  void with_packs(const Body& body) const {
    with_float_type(x().type, [&]<typename T>(std::type_identity<T> type) {
      with_pack_size<T>(channels(), [&](auto n) { body(type, n); });
    });
  }

  AvgPoolGeometry geometry_;
  OpTensors tensors_;
};

}  // namespace

std::unique_ptr<Op> make_max_pool_cuda(const MaxPoolForm& form, const OpContext& context, const OpTensors& tensors) {
  return std::make_unique<MaxPoolCuda>(form, *context.device, tensors);
}

std::unique_ptr<Op> make_avg_pool_cuda(const AvgPoolGeometry& geometry, const OpContext& /*context*/,
                                       const OpTensors& tensors) {
  return std::make_unique<AvgPoolCuda>(geometry, tensors);
}

}  // namespace carillon
