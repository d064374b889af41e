// constant and variable on a GPU.
#include "kernels/shared/float_type.h"
#include "kernels/shared/launch.cuh"
#include "kernels/values/values.h"
#include "kernels/values/values_kernels.h"

namespace carillon {
namespace {

class ConstantCuda final : public Op {
 public:
  ConstantCuda(const std::vector<float>& values, const OpContext& context, const OpTensors& tensors)
      : y_(tensors.outputs.at(0)),
        count_(static_cast<std::int64_t>(values.size())),
        values_(context.device->allocate(values.size() * sizeof(float))) {
    context.device->upload(values.data(), values_.data(), values.size() * sizeof(float));
  }

  void forward(Stream& stream) override {
    with_float_type(y_.type, [&]<typename T>(std::type_identity<T>) {
      const RepeatValues<T> kernel{static_cast<const float*>(values_.data()), count_, static_cast<T*>(y_.data)};
      launch(ForEachElement{kernel, y_.shape.element_count()}, stream);
    });
  }
  void backward(Stream& /*stream*/) override {}

 private:
  Tensor y_;
  std::int64_t count_;
  Buffer values_;
};

class VariableCuda final : public Op {
 public:
  explicit VariableCuda(const OpTensors& tensors) : tensors_(tensors) {}

  void forward(Stream& stream) override {
    const Tensor &w = tensors_.parameters.at(0), &y = tensors_.outputs.at(0);
    with_float_type(y.type, [&]<typename T>(std::type_identity<T>) {
      const RepeatValues<T> kernel{static_cast<const float*>(w.data), w.shape.element_count(), static_cast<T*>(y.data)};
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

std::unique_ptr<Op> make_constant_cuda(const std::vector<float>& values, const OpContext& context,
                                       const OpTensors& tensors) {
  return std::make_unique<ConstantCuda>(values, context, tensors);
}
std::unique_ptr<Op> make_variable_cuda(const OpTensors& tensors) { return std::make_unique<VariableCuda>(tensors); }

}  // namespace carillon
