// warp_images on a CPU, image by image.
#include "carillon/core/parallel.h"
#include "kernels/shared/element_pointer.h"
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
    parallel_items(batch, size, elementwise_grain, [&](std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i) {
        const auto sample = static_cast<std::int64_t>(i);
        write_image(map_.draw(step_.batch.first_position + i), sample_of(x_, sample), sample_of(y_, sample));
      }
    });
  }

  void backward(Stream& /*stream*/) override {}

 private:
  CARILLON_SIMD void write_image(const Warp& warp, ElementPointer image, ElementPointer out) const {
    with_float_type(
        out.type(), [&]<typename T>(std::type_identity<T>)
                        __attribute__((always_inline)) { write_pixels(warp, image.as<const T>(), out.as<T>()); });
  }

  template <typename T>
  [[gnu::always_inline]] void write_pixels(const Warp& warp, const T* image, T* out) const {
    const WarpImagesMap map = map_;
    for (std::int32_t row = 0; row < map.height; ++row) {
      for (std::int32_t column = 0; column < map.width; ++column, out += map.channels) {
        map.interpolate(
            warp.at(row, column), [&](std::int32_t element) { return to_float(image[element]); },
            [&](std::int32_t c, float value) { out[c] = stored_as<T>(value); });
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
