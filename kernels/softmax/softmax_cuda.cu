// softmax on a GPU.
#include "kernels/shared/float_type.h"
#include "kernels/shared/launch.cuh"
#include "kernels/softmax/softmax.h"
#include "kernels/softmax/softmax_kernels.h"

namespace carillon {
namespace {

class SoftmaxCuda final : public Op {
 public:
  explicit SoftmaxCuda(const OpTensors& tensors)
      : tensors_(tensors),
        columns_(tensors.outputs.at(0).shape.extents().back()),
        rows_(tensors.outputs.at(0).shape.element_count() / columns_) {}

  void forward(Stream& stream) override {
    const Tensor &x = tensors_.inputs[0], &y = tensors_.outputs[0];
    with_float_type(y.type, [&]<typename T>(std::type_identity<T>) {
      launch(SoftmaxForward<T>{{rows_, columns_}, static_cast<const T*>(x.data), static_cast<T*>(y.data)}, stream);
    });
  }

  void backward(Stream& stream) override {
    const Tensor &y = tensors_.outputs[0], &dy = tensors_.output_gradients.at(0), &dx = tensors_.input_gradients.at(0);
    if (!dx) return;
    with_float_type(y.type, [&]<typename T>(std::type_identity<T>) {
      launch(SoftmaxBackward<T>{{rows_, columns_},
                                static_cast<const T*>(y.data),
                                static_cast<const T*>(dy.data),
                                static_cast<T*>(dx.data)},
             stream);
    });
  }

 private:
  OpTensors tensors_;
  std::int64_t columns_, rows_;
};

}  // namespace

std::unique_ptr<Op> make_softmax_cuda(const OpTensors& tensors) { return std::make_unique<SoftmaxCuda>(tensors); }

}  // namespace carillon
