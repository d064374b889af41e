// The CUDA form of add.
#include "kernels/add/add.h"
#include "kernels/add/add_kernels.h"
#include "kernels/shared/float_type.h"
#include "kernels/shared/launch.cuh"

namespace carillon {
namespace {

template <typename T>
class AddCuda final : public Op {
 public:
  explicit AddCuda(const OpTensors& tensors)
      : forward_{static_cast<const T*>(tensors.inputs.at(0).data), static_cast<const T*>(tensors.inputs.at(1).data),
                 static_cast<T*>(tensors.outputs.at(0).data)},
        count_(tensors.outputs.at(0).shape.element_count()) {
    if (tensors.input_gradients.empty()) return;
    backward_ = {static_cast<const T*>(tensors.output_gradients.at(0).data),
                 static_cast<T*>(tensors.input_gradients.at(1).data)};
  }

  void forward(Stream& stream) override { launch(ForEachElement{forward_, count_}, stream); }
  void backward(Stream& stream) override {
    if (backward_.db != nullptr) launch(ForEachElement{backward_, count_}, stream);
  }

 private:
  AddForward<T> forward_;
  AddBackward<T> backward_;
  std::int64_t count_;
};

}  // namespace

std::unique_ptr<Op> make_add_cuda(const OpContext& /*context*/, const OpTensors& tensors) {
  return with_float_type(tensors.outputs.at(0).type, [&]<typename T>(std::type_identity<T>) -> std::unique_ptr<Op> {
    return std::make_unique<AddCuda<T>>(tensors);
  });
}

}  // namespace carillon
