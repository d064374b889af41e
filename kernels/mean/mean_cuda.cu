// mean on a GPU.
#include "kernels/mean/mean.h"
#include "kernels/mean/mean_kernels.h"
#include "kernels/shared/float_type.h"
#include "kernels/shared/launch.cuh"

namespace carillon {
namespace {

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

std::unique_ptr<Op> make_mean_cuda(const Shape& kept, const OpTensors& tensors) {
  return std::make_unique<MeanCuda>(kept, tensors);
}

}  // namespace carillon
