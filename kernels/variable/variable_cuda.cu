// variable on a GPU.
#include "kernels/shared/float_type.h"
#include "kernels/shared/launch.cuh"
#include "kernels/variable/variable.h"
#include "kernels/variable/variable_kernels.h"

namespace carillon {
namespace {

class VariableCuda final : public Op {
 public:
  explicit VariableCuda(const OpTensors& tensors) : tensors_(tensors) {}

  void forward(Stream& stream) override {
    const Tensor &w = tensors_.parameters.at(0), &y = tensors_.outputs.at(0);
    with_float_type(y.type, [&]<typename T>(std::type_identity<T>) {
      const VariableForward<T> kernel{static_cast<const float*>(w.data), w.shape.element_count(),
                                      static_cast<T*>(y.data)};
      launch(ForEachElement{kernel, y.shape.element_count()}, stream);
    });
  }

  void backward(Stream& stream) override {
    const Tensor &dw = tensors_.parameter_gradients.at(0), &dy = tensors_.output_gradients.at(0);
    if (!dw) return;
    with_float_type(dy.type, [&]<typename T>(std::type_identity<T>) {
      const VariableBackward<T> kernel{static_cast<const T*>(dy.data), dw.shape.element_count(), dy.shape[0],
                                       static_cast<float*>(dw.data)};
      launch(ForEachElement{kernel, dw.shape.element_count()}, stream);
    });
  }

 private:
  OpTensors tensors_;
};

}  // namespace

std::unique_ptr<Op> make_variable_cuda(const OpTensors& tensors) { return std::make_unique<VariableCuda>(tensors); }

}  // namespace carillon
