// mix_images on a GPU.
#include "kernels/mix_images/mix_images.h"
#include "kernels/mix_images/mix_images_kernels.h"
#include "kernels/shared/float_type.h"
#include "kernels/shared/launch.cuh"

namespace carillon {
namespace {

template <typename T>
class MixImagesCuda final : public Op {
 public:
  MixImagesCuda(const MixingParams& params, const StepTable& table, const Tensor& x, const Tensor& y)
      : kernel_{.params = params,
                .table = table,
                .x = static_cast<const T*>(x.data),
                .y = static_cast<T*>(y.data),
                .batch = x.shape[0],
                .channels = static_cast<std::int32_t>(x.shape[3])} {}

  void forward(Stream& stream) override { launch(kernel_, stream); }
  void backward(Stream& /*stream*/) override {}

 private:
  MixImagesKernel<T> kernel_;
};

}  // namespace

std::unique_ptr<Op> make_mix_images_cuda(const MixingParams& params, const OpContext& context,
                                         const OpTensors& tensors) {
  const Tensor& x = tensors.inputs.at(0);
  return with_float_type(x.type, [&]<typename T>(std::type_identity<T>) -> std::unique_ptr<Op> {
    return std::make_unique<MixImagesCuda<T>>(params, context.step->table, x, tensors.outputs.at(0));
  });
}

}  // namespace carillon
