// mean_loss in CUDA: one kernel. In training, the backward pass also computes the loss and writes the step sums. The
// forward pass then does no work.
#include "kernels/mean_loss/mean_loss.h"
#include "kernels/mean_loss/mean_loss_kernels.h"
#include "kernels/shared/float_type.h"
#include "kernels/shared/launch.cuh"

namespace carillon {
namespace {

template <typename T, typename Target, typename F>
class MeanLossCuda final : public Op {
 public:
  MeanLossCuda(const F& function, const MixingParams& mixing, const OpContext& context, const OpTensors& tensors)
      : kernel_{.function = function,
                .batch = tensors.inputs.at(0).shape[0],
                .columns = tensors.inputs.at(0).shape[1],
                .outputs = static_cast<const T*>(tensors.inputs.at(0).data),
                .table = context.step->table,
                .mixing = mixing,
                .loss = tensors.outputs.at(0).floats().data()} {
    const auto blocks = static_cast<std::size_t>(kernel_.blocks());
    block_sums_ = context.device->allocate(blocks * sizeof(double));
    blocks_done_ = context.device->allocate(sizeof(std::uint32_t));
    kernel_.block_sums = static_cast<double*>(block_sums_.data());
    kernel_.blocks_done = static_cast<std::uint32_t*>(blocks_done_.data());
    backward_ = kernel_;
    backward_.loss = nullptr;  // the memory may already hold another tensor
    if (tensors.input_gradients.empty()) return;
    backward_.gradient = static_cast<T*>(tensors.input_gradients.at(0).data);
    if (!tensors.step_sums.empty()) backward_.step_sums = tensors.step_sums.data();
  }

  void forward(Stream& stream) override {
    if (backward_.step_sums == nullptr) launch(kernel_, stream);
  }

  void backward(Stream& stream) override {
    if (backward_.gradient != nullptr || backward_.step_sums != nullptr) launch(backward_, stream);
  }

 private:
  MeanLossKernel<T, Target, F> kernel_, backward_;
  Buffer block_sums_, blocks_done_;
};

}  // namespace

std::unique_ptr<Op> make_mean_loss_cuda(const MeanLossParams& params, const OpContext& context,
                                        const OpTensors& tensors) {
  return with_float_type(tensors.inputs.at(0).type, [&]<typename T>(std::type_identity<T>) {
    return with_loss_function(params, [&]<typename F>(const F& function) -> std::unique_ptr<Op> {
      if (tensors.inputs.at(1).type == DType::u8) {
        return std::make_unique<MeanLossCuda<T, std::uint8_t, F>>(function, params.mixing, context, tensors);
      }
      return std::make_unique<MeanLossCuda<T, float, F>>(function, params.mixing, context, tensors);
    });
  });
}

}  // namespace carillon
