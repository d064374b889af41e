// mix_images on a CPU, image by image.
#include <algorithm>

#include "carillon/core/parallel.h"
#include "kernels/mix_images/mix_images.h"

namespace carillon {
namespace {

CARILLON_SIMD void blend(const Mixing& given, const float* __restrict own, const float* __restrict other,
                         std::size_t count, float* __restrict out) {
  const Mixing mixing = given;
  for (std::size_t i = 0; i < count; ++i) out[i] = mixing.blend(own[i], other[i]);
}

class MixImagesCpu final : public Op {
 public:
  MixImagesCpu(const MixingParams& params, const OpContext& context, const OpTensors& tensors)
      : params_(params), step_(*context.step), x_(tensors.inputs.at(0)), y_(tensors.outputs.at(0)) {}

  void forward(Stream& /*stream*/) override {
    const Mixing mixing = draw_mixing(params_, step_.batch.first_position);
    const auto batch = static_cast<std::size_t>(x_.shape[0]),
               size = static_cast<std::size_t>(x_.shape.elements_per_sample());
    const float* const x = x_.floats().data();
    float* const y = y_.floats().data();
    parallel_items(batch, size, elementwise_grain, [&](std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i) {
        const float *const own = x + i * size, *const other = x + mixed_with(i, batch) * size;
        if (mixing.cuts) {
          cut(mixing, own, other, size, y + i * size);
        } else {
          blend(mixing, own, other, size, y + i * size);
        }
      }
    });
  }

  void backward(Stream& /*stream*/) override {}

 private:
  void cut(const Mixing& mixing, const float* own, const float* other, std::size_t size, float* out) const {
    const std::int64_t width = x_.shape[2], channels = x_.shape[3];
    std::copy_n(own, size, out);
    for (std::int64_t row = mixing.top; row < mixing.bottom; ++row) {
      const std::int64_t at = (row * width + mixing.left) * channels;
      std::copy_n(other + at, (mixing.right - mixing.left) * channels, out + at);
    }
  }

  MixingParams params_;
  const StepInputs& step_;
  Tensor x_, y_;
};

}  // namespace

std::unique_ptr<Op> make_mix_images_cpu(const MixingParams& params, const OpContext& context,
                                        const OpTensors& tensors) {
  return std::make_unique<MixImagesCpu>(params, context, tensors);
}

}  // namespace carillon
