// warp_images on a GPU.
#include "kernels/shared/float_type.h"
#include "kernels/shared/launch.cuh"
#include "kernels/warp_images/warp_images_kernels.h"

namespace carillon {
namespace {

template <typename T>
class WarpImagesCuda final : public Op {
 public:
  WarpImagesCuda(const WarpImagesMap& map, const StepTable& table, const Tensor& x, const Tensor& y)
      : kernel_{.map = map,
                .table = table,
                .x = static_cast<const T*>(x.data),
                .y = static_cast<T*>(y.data),
                .batch = x.shape[0]} {}

  void forward(Stream& stream) override { launch(kernel_, stream); }
  void backward(Stream& /*stream*/) override {}

 private:
  WarpImagesKernel<T> kernel_;
};

}  // namespace

std::unique_ptr<Op> make_warp_images_cuda(const WarpParams& params, const OpContext& context,
                                          const OpTensors& tensors) {
  const Tensor& x = tensors.inputs.at(0);
  return with_float_type(x.type, [&]<typename T>(std::type_identity<T>) -> std::unique_ptr<Op> {
    return std::make_unique<WarpImagesCuda<T>>(map_of(params, x.shape), context.step->table, x, tensors.outputs.at(0));
  });
}

}  // namespace carillon
