// The CUDA form of fork.
#include "kernels/fork/fork.h"
#include "kernels/fork/fork_kernels.h"
#include "kernels/shared/float_type.h"
#include "kernels/shared/launch.cuh"

namespace carillon {
namespace {

class ForkCuda final : public Op {
 public:
  explicit ForkCuda(const OpTensors& tensors) : gradients_(tensors.output_gradients) {}

  void forward(Stream& /*stream*/) override {}

  void backward(Stream& stream) override {
    const Tensor& sum = gradients_.at(0);
    with_float_type(sum.type, [&]<typename T>(std::type_identity<T>) {
      for (std::size_t k = 1; k < gradients_.size(); ++k) {
        launch(ForEachElement{AddTo<T>{static_cast<T*>(sum.data), static_cast<const T*>(gradients_[k].data)},
                              sum.shape.element_count()},
               stream);
      }
    });
  }

 private:
  std::vector<Tensor> gradients_;
};

}  // namespace

std::unique_ptr<Op> make_fork_cuda(const OpContext& /*context*/, const OpTensors& tensors) {
  return std::make_unique<ForkCuda>(tensors);
}

}  // namespace carillon
