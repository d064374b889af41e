// cifar_distort on a GPU.
#include "kernels/cifar_distort/cifar_distort.h"
#include "kernels/cifar_distort/cifar_distort_kernels.h"
#include "kernels/shared/float_type.h"
#include "kernels/shared/launch.cuh"

namespace carillon {
namespace {

template <typename T>
class CifarDistortCuda final : public Op {
 public:
  CifarDistortCuda(const CifarDistortParams& params, const StepTable& table, const Tensor& output)
      : kernel_{.table = table,
                .distort = params.distort,
                .seed = params.seed,
                .channels = static_cast<int>(params.source[0]),
                .source = {static_cast<std::uint32_t>(params.source[1]), static_cast<std::uint32_t>(params.source[2])},
                .crop = {static_cast<std::uint32_t>(params.crop_height), static_cast<std::uint32_t>(params.crop_width)},
                .output = static_cast<T*>(output.data),
                .output_channels = static_cast<std::uint32_t>(output.shape[3]),
                .batch = output.shape[0]} {
    check(kernel_.crop.pixels() <= 1u << 24, "cifar_distort on a GPU: an image of more than 2^24 pixels");
  }

  void forward(Stream& stream) override { launch(kernel_, stream); }
  void backward(Stream& /*stream*/) override {}

 private:
  CifarDistortKernel<T> kernel_;
};

}  // namespace

std::unique_ptr<Op> make_cifar_distort_cuda(const CifarDistortParams& params, const OpContext& context,
                                            const OpTensors& tensors) {
  const Tensor& output = tensors.outputs.at(0);
  return with_float_type(output.type, [&]<typename T>(std::type_identity<T>) -> std::unique_ptr<Op> {
    return std::make_unique<CifarDistortCuda<T>>(params, context.step->table, output);
  });
}

}  // namespace carillon
