// normalize_images on a GPU.
#include "kernels/normalize_images/normalize_images.h"
#include "kernels/normalize_images/normalize_images_kernels.h"
#include "kernels/shared/float_type.h"
#include "kernels/shared/launch.cuh"

namespace carillon {
namespace {

template <typename T>
class NormalizeImagesCuda final : public Op {
 public:
  NormalizeImagesCuda(const NormalizeImagesParams& params, const StepTable& table, const Tensor& output)
      : kernel_{.table = table,
                .map = NormalizeImagesMap(params),
                .output = static_cast<T*>(output.data),
                .output_channels = static_cast<std::int32_t>(output.shape[3]),
                .batch = output.shape[0]} {}

  void forward(Stream& stream) override { launch(kernel_, stream); }
  void backward(Stream& /*stream*/) override {}

 private:
  NormalizeImagesKernel<T> kernel_;
};

}  // namespace

std::unique_ptr<Op> make_normalize_images_cuda(const NormalizeImagesParams& params, const OpContext& context,
                                               const OpTensors& tensors) {
  const Tensor& output = tensors.outputs.at(0);
  return with_float_type(output.type, [&]<typename T>(std::type_identity<T>) -> std::unique_ptr<Op> {
    return std::make_unique<NormalizeImagesCuda<T>>(params, context.step->table, output);
  });
}

}  // namespace carillon
