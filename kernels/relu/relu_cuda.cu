// The CUDA form of relu.
#include "kernels/relu/relu.h"
#include "kernels/relu/relu_kernels.h"
#include "kernels/shared/float_type.h"
#include "kernels/shared/launch.cuh"

namespace carillon {
namespace {

template <typename T>
class ReluCuda final : public Op {
 public:
  explicit ReluCuda(const OpTensors& tensors)
      : forward_{static_cast<const T*>(tensors.inputs.at(0).data), static_cast<T*>(tensors.outputs.at(0).data)},
        backward_{forward_.y,
                  tensors.input_gradients.empty() ? nullptr : static_cast<T*>(tensors.input_gradients[0].data)},
        count_(tensors.outputs.at(0).shape.element_count()) {}

  void forward(Stream& stream) override { launch(ForEachElement{forward_, count_}, stream); }
  void backward(Stream& stream) override {
    if (backward_.dx != nullptr) launch(ForEachElement{backward_, count_}, stream);
  }

 private:
  ReluForward<T> forward_;
  ReluBackward<T> backward_;
  std::int64_t count_;
};

}  // namespace

std::unique_ptr<Op> make_relu_cuda(const OpContext& /*context*/, const OpTensors& tensors) {
  return with_float_type(tensors.outputs.at(0).type, [&]<typename T>(std::type_identity<T>) -> std::unique_ptr<Op> {
    return std::make_unique<ReluCuda<T>>(tensors);
  });
}

}  // namespace carillon
