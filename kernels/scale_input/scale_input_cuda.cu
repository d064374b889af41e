// scale_input on a GPU.
#include "kernels/scale_input/scale_input.h"
#include "kernels/scale_input/scale_input_kernels.h"
#include "kernels/shared/float_type.h"
#include "kernels/shared/launch.cuh"

namespace carillon {
namespace {

template <typename T>
class ScaleInputCuda final : public Op {
 public:
  ScaleInputCuda(const ScaleInputParams& params, const StepTable& table, const Tensor& output)
      : kernel_{.table = table,
                .scale = params.scale,
                .output = static_cast<T*>(output.data),
                .batch = output.shape[0],
                .channels = static_cast<std::uint32_t>(params.sample.extents().back()),
                .output_channels = static_cast<std::uint32_t>(output.shape.extents().back())} {
    kernel_.pixels = static_cast<std::uint32_t>(params.sample.element_count()) / kernel_.channels;
  }

  void forward(Stream& stream) override { launch(kernel_, stream); }
  void backward(Stream& /*stream*/) override {}

 private:
  ScaleInputKernel<T> kernel_;
};

}  // namespace

std::unique_ptr<Op> make_scale_input_cuda(const ScaleInputParams& params, const OpContext& context,
                                          const OpTensors& tensors) {
  const Tensor& output = tensors.outputs.at(0);
  return with_float_type(output.type, [&]<typename T>(std::type_identity<T>) -> std::unique_ptr<Op> {
    return std::make_unique<ScaleInputCuda<T>>(params, context.step->table, output);
  });
}

}  // namespace carillon
