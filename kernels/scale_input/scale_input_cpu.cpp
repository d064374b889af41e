// scale_input on a CPU: gathers and converts in one pass.
#include "carillon/core/parallel.h"
#include "kernels/scale_input/scale_input.h"
#include "kernels/shared/element_pointer.h"

namespace carillon {
namespace {

CARILLON_SIMD void scale_row(const std::uint8_t* image, std::size_t count, float scale, ElementPointer out) {
  with_float_type(
      out.type(), [&]<typename T>(std::type_identity<T>) __attribute__((always_inline)) {
        T* const y = out.as<T>();
        for (std::size_t i = 0; i < count; ++i) y[i] = stored_as<T>(scale * static_cast<float>(image[i]));
      });
}

class ScaleInputCpu final : public Op {
 public:
  ScaleInputCpu(float scale, const StepInputs& step, const Tensor& output)
      : scale_(scale), step_(step), output_(output) {}

  void forward(Stream& /*stream*/) override {
    const std::size_t row = static_cast<std::size_t>(output_.shape.elements_per_sample());
    const std::size_t batch = step_.batch.images.size();
    const ElementPointer out(output_);
    parallel_items(batch, row, elementwise_grain, [&](std::size_t first, std::size_t last) {
      for (std::size_t b = first; b < last; ++b) scale_row(step_.batch.images[b], row, scale_, out + b * row);
    });
  }

  void backward(Stream& /*stream*/) override {}

 private:
  float scale_;
  const StepInputs& step_;
  Tensor output_;
};

}  // namespace

std::unique_ptr<Op> make_scale_input_cpu(const ScaleInputParams& params, const OpContext& context,
                                         const OpTensors& tensors) {
  return std::make_unique<ScaleInputCpu>(params.scale, *context.step, tensors.outputs.at(0));
}

}  // namespace carillon
