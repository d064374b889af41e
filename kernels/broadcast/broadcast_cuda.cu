// multiply, add and mean on a GPU: one kernel for y, and one kernel for each gradient.
#include "kernels/broadcast/broadcast.h"
#include "kernels/broadcast/broadcast_kernels.h"
#include "kernels/shared/float_type.h"
#include "kernels/shared/launch.cuh"

namespace carillon {
namespace {

template <bool multiplies>
class BroadcastCuda final : public Op {
 public:
  explicit BroadcastCuda(const OpTensors& tensors)
      : tensors_(tensors), axes_(broadcast_axes(tensors.inputs.at(0).shape, tensors.inputs.at(1).shape)) {}

  void forward(Stream& stream) override {
    const Tensor &a = tensors_.inputs[0], &b = tensors_.inputs[1], &y = tensors_.outputs[0];
    with_float_type(y.type, [&]<typename T>(std::type_identity<T>) {
      const BroadcastForward<T, multiplies> kernel{axes_,
                                                   a.shape.elements_per_sample(),
                                                   b.shape.elements_per_sample(),
                                                   y.shape.elements_per_sample(),
                                                   static_cast<const T*>(a.data),
                                                   static_cast<const T*>(b.data),
                                                   static_cast<T*>(y.data)};
      launch(ForEachElement{kernel, y.shape.element_count()}, stream);
    });
  }

  void backward(Stream& stream) override {
    find_gradient(0, axes_, stream);
    find_gradient(1, exchanged(axes_), stream);
  }

 private:
  /// `axes`: the broadcast axes. For operand 1, `axes` must be exchanged(), because the kernels compute the gradient of
  /// operand a.
  void find_gradient(std::size_t operand, const BroadcastAxes& axes, Stream& stream) {
    const Tensor &dy = tensors_.output_gradients.at(0), &gradient = tensors_.input_gradients.at(operand);
    if (!gradient) return;
    const Tensor& other = tensors_.inputs[1 - operand];
    with_float_type(dy.type, [&]<typename T>(std::type_identity<T>) {
      const auto kernel =
          broadcast_gradient<T, multiplies>(axes, gradient.shape, other.shape, static_cast<const T*>(dy.data),
                                            static_cast<const T*>(other.data), static_cast<T*>(gradient.data));
      launch(ForEachElement{kernel, gradient.shape.element_count()}, stream);
    });
  }

  OpTensors tensors_;
  BroadcastAxes axes_;
};

class MeanCuda final : public Op {
 public:
  MeanCuda(const Shape& kept, const OpTensors& tensors) : kept_(kept), tensors_(tensors) {}

  void forward(Stream& stream) override {
    const Tensor &x = tensors_.inputs[0], &y = tensors_.outputs[0];
    with_float_type(y.type, [&]<typename T>(std::type_identity<T>) {
      const auto kernel = mean_forward<T>(kept_, x.shape, static_cast<const T*>(x.data), static_cast<T*>(y.data));
      launch(ForEachElement{kernel, y.shape.element_count()}, stream);
    });
  }

  void backward(Stream& stream) override {
    const Tensor &dy = tensors_.output_gradients.at(0), &dx = tensors_.input_gradients.at(0);
    if (!dx) return;
    with_float_type(dx.type, [&]<typename T>(std::type_identity<T>) {
      const auto kernel = mean_backward<T>(kept_, dx.shape, static_cast<const T*>(dy.data), static_cast<T*>(dx.data));
      launch(ForEachElement{kernel, dx.shape.element_count()}, stream);
    });
  }

 private:
  Shape kept_;
  OpTensors tensors_;
};

}  // namespace

std::unique_ptr<Op> make_broadcast_cuda(BroadcastFunction function, const OpTensors& tensors) {
  if (function == BroadcastFunction::multiply) return std::make_unique<BroadcastCuda<true>>(tensors);
  return std::make_unique<BroadcastCuda<false>>(tensors);
}

std::unique_ptr<Op> make_mean_cuda(const Shape& kept, const OpTensors& tensors) {
  return std::make_unique<MeanCuda>(kept, tensors);
}

}  // namespace carillon
