// dropout on a GPU.
#include "kernels/dropout/dropout.h"
#include "kernels/dropout/dropout_kernels.h"
#include "kernels/shared/block_kernel.h"
#include "kernels/shared/float_type.h"
#include "kernels/shared/launch.cuh"

namespace carillon {
namespace {

class DropoutCuda final : public Op {
 public:
  DropoutCuda(const DropoutDraws& draws, const OpContext& context, const OpTensors& tensors)
      : filter_(draws), table_(context.step->table), x_(tensors.inputs.at(0)), y_(tensors.outputs.at(0)) {
    check_index_limit("dropout", x_.shape.element_count());
    if (!tensors.input_gradients.empty()) dx_ = tensors.input_gradients.at(0);
  }

  void forward(Stream& stream) override { apply(x_, y_, stream); }
  void backward(Stream& stream) override {
    if (dx_) apply(dx_, dx_, stream);
  }

 private:
  void apply(const Tensor& from, const Tensor& to, Stream& stream) const {
    with_float_type(x_.type, [&]<typename T>(std::type_identity<T>) {
      const std::uint32_t size = static_cast<std::uint32_t>(x_.shape.elements_per_sample());
      const auto launch_as = [&]<bool whole_blocks>(std::bool_constant<whole_blocks>) {
        const DropoutApply<T, whole_blocks> kernel{filter_, table_, size, static_cast<const T*>(from.data),
                                                   static_cast<T*>(to.data)};
        launch(ForEachElement{kernel, x_.shape[0] * kernel.blocks_per_sample()}, stream);
      };
      if (size % dropout_block == 0) return launch_as(std::true_type{});
      launch_as(std::false_type{});
    });
  }

  DropoutFilter filter_;
  StepTable table_;
  Tensor x_, y_, dx_;
};

}  // namespace

std::unique_ptr<Op> make_dropout_cuda(const DropoutDraws& draws, const OpContext& context, const OpTensors& tensors) {
  return std::make_unique<DropoutCuda>(draws, context, tensors);
}

}  // namespace carillon
