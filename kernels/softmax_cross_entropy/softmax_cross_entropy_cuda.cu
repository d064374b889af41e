// softmax_cross_entropy in CUDA: one kernel. The backward pass computes the exponentials and the loss again. In
// training, the backward pass also writes the step sums, and the forward pass does no work.
#include "kernels/shared/float_type.h"
#include "kernels/shared/launch.cuh"
#include "kernels/softmax_cross_entropy/softmax_cross_entropy.h"
#include "kernels/softmax_cross_entropy/softmax_cross_entropy_kernels.h"

namespace carillon {
namespace {

template <typename T, int lanes, bool weighs_classes>
class SoftmaxCrossEntropyCuda final : public Op {
 public:
  SoftmaxCrossEntropyCuda(const SoftmaxCrossEntropyParams& params, const OpContext& context, const OpTensors& tensors)
      : kernel_{.batch = tensors.inputs.at(0).shape[0],
                .classes = tensors.inputs.at(0).shape[1],
                .logits = static_cast<const T*>(tensors.inputs.at(0).data),
                .table = context.step->table,
                .loss = tensors.outputs.at(0).floats().data(),
                .smoothing = params.label_smoothing,
                .mixing = params.mixing,
                .gamma = params.focal_gamma} {
    if (!params.class_weights.empty()) {
      const std::size_t bytes = params.class_weights.size() * sizeof(float);
      weights_ = context.device->allocate(bytes);
      context.device->upload(params.class_weights.data(), weights_.data(), bytes);
      kernel_.weights = static_cast<const float*>(weights_.data());
    }
    const auto blocks = static_cast<std::size_t>(kernel_.blocks());
    block_losses_ = context.device->allocate(blocks * sizeof(double));
    blocks_done_ = context.device->allocate(sizeof(std::uint32_t));
    kernel_.block_losses = static_cast<double*>(block_losses_.data());
    kernel_.blocks_done = static_cast<std::uint32_t*>(blocks_done_.data());
    backward_ = kernel_;
    backward_.loss = nullptr;  // the memory may already hold another tensor
    if (tensors.input_gradients.empty()) return;
    backward_.gradient = static_cast<T*>(tensors.input_gradients.at(0).data);
    if (!tensors.step_sums.empty()) backward_.step_sums = tensors.step_sums.data();
    if (!tensors.input_gradient_sums) return;
    block_columns_ = context.device->allocate(blocks * static_cast<std::size_t>(kernel_.classes) * sizeof(float));
    backward_.block_columns = static_cast<float*>(block_columns_.data());
    backward_.column_sums = tensors.input_gradient_sums.floats().data();
  }

  void forward(Stream& stream) override {
    if (backward_.step_sums == nullptr)
      launch(kernel_, stream);  // otherwise no code reads the loss before the backward pass
  }

  void backward(Stream& stream) override {
    if (backward_.gradient != nullptr || backward_.step_sums != nullptr) launch(backward_, stream);
  }

 private:
  SoftmaxKernel<T, lanes, weighs_classes> kernel_, backward_;
  Buffer weights_, block_losses_, blocks_done_, block_columns_;
};

}  // namespace

std::unique_ptr<Op> make_softmax_cross_entropy_cuda(const SoftmaxCrossEntropyParams& params, const OpContext& context,
                                                    const OpTensors& tensors) {
  const Tensor& logits = tensors.inputs.at(0);
  return with_float_type(logits.type, [&]<typename T>(std::type_identity<T>) {
    const auto make = [&]<int lanes>(std::integral_constant<int, lanes>) -> std::unique_ptr<Op> {
      if (params.weighs_classes()) {
        return std::make_unique<SoftmaxCrossEntropyCuda<T, lanes, true>>(params, context, tensors);
      }
      return std::make_unique<SoftmaxCrossEntropyCuda<T, lanes, false>>(params, context, tensors);
    };
    return with_softmax_lanes(logits.shape[1], make);
  });
}

}  // namespace carillon
