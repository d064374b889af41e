// image_input and mix_images on a GPU.
#include "kernels/image_input/image_input.h"
#include "kernels/image_input/image_input_kernels.h"
#include "kernels/shared/float_type.h"
#include "kernels/shared/launch.cuh"

namespace carillon {
namespace {

template <typename Kernel>
class ForwardKernel final : public Op {
 public:
  explicit ForwardKernel(const Kernel& kernel) : kernel_(kernel) {}
  void forward(Stream& stream) override { launch(kernel_, stream); }
  void backward(Stream& /*stream*/) override {}

 private:
  Kernel kernel_;
};

}  // namespace

std::unique_ptr<Op> make_image_input_cuda(const ImageInputParams& params, const OpContext& context,
                                          const OpTensors& tensors) {
  const Tensor& output = tensors.outputs.at(0);
  const ImageInputMap map(params);
  check(!map.standardizes || map.pixels() <= 1 << 24, "image_input on a GPU: an image of more than 2^24 pixels");
  return with_float_type(output.type, [&]<typename T>(std::type_identity<T>) -> std::unique_ptr<Op> {
    using Kernel = ImageInputKernel<T>;
    return std::make_unique<ForwardKernel<Kernel>>(
        Kernel{.table = context.step->table,
               .map = map,
               .output = static_cast<T*>(output.data),
               .output_channels = static_cast<std::int32_t>(output.shape.extents().back()),
               .batch = output.shape[0]});
  });
}

std::unique_ptr<Op> make_mix_images_cuda(const MixingParams& params, const OpContext& context,
                                         const OpTensors& tensors) {
  const Tensor& x = tensors.inputs.at(0);
  return with_float_type(x.type, [&]<typename T>(std::type_identity<T>) -> std::unique_ptr<Op> {
    using Kernel = MixImagesKernel<T>;
    return std::make_unique<ForwardKernel<Kernel>>(Kernel{.params = params,
                                                          .table = context.step->table,
                                                          .x = static_cast<const T*>(x.data),
                                                          .y = static_cast<T*>(tensors.outputs.at(0).data),
                                                          .batch = x.shape[0],
                                                          .channels = static_cast<std::int32_t>(x.shape[3])});
  });
}

}  // namespace carillon
