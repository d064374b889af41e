// warp_images on a CPU, image by image.
#include "carillon/core/parallel.h"
#include "kernels/warp_images/warp_images_math.h"

namespace carillon {
namespace {

class WarpImagesCpu final : public Op {
 public:
  WarpImagesCpu(const WarpImagesMap& map, const OpContext& context, const OpTensors& tensors)
      : map_(map), step_(*context.step), x_(tensors.inputs.at(0)), y_(tensors.outputs.at(0)) {}

  void forward(Stream& /*stream*/) override {
    const auto batch = static_cast<std::size_t>(x_.shape[0]),
               size = static_cast<std::size_t>(x_.shape.elements_per_sample());
    const float* const x = x_.floats().data();
    float* const y = y_.floats().data();
    parallel_items(batch, size, elementwise_grain, [&](std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i) {
        write_image(map_.draw(step_.batch.first_position + i), x + i * size, y + i * size);
      }
    });
  }

  void backward(Stream& /*stream*/) override {}

 private:
  CARILLON_SIMD void write_image(const Warp& warp, const float* image, float* out) const {
    const WarpImagesMap map = map_;
    for (std::int32_t row = 0; row < map.height; ++row) {
      for (std::int32_t column = 0; column < map.width; ++column, out += map.channels) {
        map.interpolate(
            warp.at(row, column), [&](std::int32_t element) { return image[element]; },
            [&](std::int32_t c, float value) { out[c] = value; });
      }
    }
  }

  WarpImagesMap map_;
  const StepInputs& step_;
  Tensor x_, y_;
};

}  // namespace

std::unique_ptr<Op> make_warp_images_cpu(const WarpParams& params, const OpContext& context, const OpTensors& tensors) {
  return std::make_unique<WarpImagesCpu>(map_of(params, tensors.inputs.at(0).shape), context, tensors);
}

}  // namespace carillon
