// constant on a GPU.
#include "kernels/constant/constant.h"
#include "kernels/constant/constant_kernels.h"
#include "kernels/shared/float_type.h"
#include "kernels/shared/launch.cuh"

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
      const ConstantForward<T> kernel{static_cast<const float*>(values_.data()), count_, static_cast<T*>(y_.data)};
      launch(ForEachElement{kernel, y_.shape.element_count()}, stream);
    });
  }
  void backward(Stream& /*stream*/) override {}

 private:
  Tensor y_;
  std::int64_t count_;
  Buffer values_;
};

}  // namespace

std::unique_ptr<Op> make_constant_cuda(const std::vector<float>& values, const OpContext& context,
                                       const OpTensors& tensors) {
  return std::make_unique<ConstantCuda>(values, context, tensors);
}

}  // namespace carillon
