// The CUDA form of scale.
#include "kernels/scale/scale.h"
#include "kernels/scale/scale_kernels.h"
#include "kernels/shared/float_type.h"
#include "kernels/shared/launch.cuh"

namespace carillon {
namespace {

template <typename T>
class ScaleCuda final : public Op {
 public:
  ScaleCuda(float factor, const OpTensors& tensors)
      : forward_{factor, static_cast<const T*>(tensors.inputs.at(0).data), static_cast<T*>(tensors.outputs.at(0).data)},
        count_(tensors.outputs.at(0).shape.element_count()) {
    if (tensors.input_gradients.empty()) return;
    T* const dx = static_cast<T*>(tensors.input_gradients[0].data);
    backward_ = {factor, dx, dx};
  }

  void forward(Stream& stream) override { launch(ForEachElement{forward_, count_}, stream); }
  void backward(Stream& stream) override {
    if (backward_.y != nullptr) launch(ForEachElement{backward_, count_}, stream);
  }

 private:
  ScaleElement<T> forward_, backward_;
  std::int64_t count_;
};

}  // namespace

std::unique_ptr<Op> make_scale_cuda(float factor, const OpContext& /*context*/, const OpTensors& tensors) {
  return with_float_type(tensors.outputs.at(0).type, [&]<typename T>(std::type_identity<T>) -> std::unique_ptr<Op> {
    return std::make_unique<ScaleCuda<T>>(factor, tensors);
  });
}

}  // namespace carillon
