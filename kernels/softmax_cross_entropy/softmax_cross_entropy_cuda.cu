// The CUDA form of softmax_cross_entropy: one kernel each way.
#include "kernels/shared/float_type.h"
#include "kernels/shared/launch.cuh"
#include "kernels/softmax_cross_entropy/softmax_cross_entropy.h"
#include "kernels/softmax_cross_entropy/softmax_cross_entropy_kernels.h"

namespace carillon {
namespace {

template <typename T>
class SoftmaxCrossEntropyCuda final : public Op {
 public:
  SoftmaxCrossEntropyCuda(const SoftmaxCrossEntropyParams& params, const OpContext& context, const OpTensors& tensors)
      : rows_(tensors.inputs.at(0).shape[0], tensors.inputs.at(0).shape[1]),
        exponentials_(context.device->allocate(static_cast<std::size_t>(rows_.batch) * sizeof(RowExponentials))),
        block_losses_(context.device->allocate(static_cast<std::size_t>(rows_.blocks()) * sizeof(double))),
        blocks_done_(context.device->allocate(sizeof(std::uint32_t))),
        lambda_(params.mixing.mixes() ? context.device->allocate(sizeof(float)) : Buffer{}),
        forward_{.rows = rows_,
                 .logits = static_cast<const T*>(tensors.inputs.at(0).data),
                 .table = context.step->table,
                 .exponentials = static_cast<RowExponentials*>(exponentials_.data()),
                 .block_losses = static_cast<double*>(block_losses_.data()),
                 .blocks_done = static_cast<std::uint32_t*>(blocks_done_.data()),
                 .loss = tensors.outputs.at(0).floats().data(),
                 .smoothing = params.label_smoothing,
                 .mixing = params.mixing,
                 .lambda = static_cast<float*>(lambda_.data())},
        gradient_{
            .logits = forward_.logits,
            .exponentials = forward_.exponentials,
            .table = forward_.table,
            .gradient = tensors.input_gradients.empty() ? nullptr : static_cast<T*>(tensors.input_gradients.at(0).data),
            .batch = rows_.batch,
            .classes = rows_.classes,
            .smoothing = params.label_smoothing,
            .lambda = forward_.lambda} {}

  void forward(Stream& stream) override { launch(forward_, stream); }

  void backward(Stream& stream) override {
    if (gradient_.gradient != nullptr) launch(ForEachElement{gradient_, rows_.batch * rows_.classes}, stream);
  }

 private:
  LogitRows rows_;
  Buffer exponentials_, block_losses_, blocks_done_, lambda_;
  SoftmaxForwardKernel<T> forward_;
  SoftmaxGradient<T> gradient_;
};

}  // namespace

std::unique_ptr<Op> make_softmax_cross_entropy_cuda(const SoftmaxCrossEntropyParams& params, const OpContext& context,
                                                    const OpTensors& tensors) {
  return with_float_type(tensors.inputs.at(0).type, [&]<typename T>(std::type_identity<T>) -> std::unique_ptr<Op> {
    return std::make_unique<SoftmaxCrossEntropyCuda<T>>(params, context, tensors);
  });
}

}  // namespace carillon
