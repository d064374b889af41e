// The definition of warp_images, and the op on a CPU, image by image.
#include "kernels/warp_images/warp_images.h"

#include "carillon/core/parallel.h"
#include "kernels/shared/backend.h"
#include "kernels/shared/element_pointer.h"
#include "kernels/warp_images/warp_images_kernels.h"

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

class WarpImagesDefinition final : public OpDefinition {
 public:
  explicit WarpImagesDefinition(const WarpParams& params) : params_(params) {}
  std::string_view type() const override { return "warp_images"; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context,
        [&] { return std::make_unique<WarpImagesCpu>(map_of(params_, tensors.inputs.at(0).shape), context, tensors); },
        [&] { return make_warp_images_cuda(params_, context, tensors); });
  }

 private:
  WarpParams params_;
};

}  // namespace

Value warp_images(Graph& graph, const std::string& name, Value x, const WarpParams& params) {
  const Shape shape = graph.shape(x);
  check(shape.rank() == 4, "warp_images requires images [batch, height, width, channels]");
  check(params.rotation >= 0.0 && params.zoom >= 0.0 && params.zoom < 1.0 && params.shift >= 0.0,
        "warp_images requires rotation >= 0, zoom from 0 to below 1 and shift >= 0");
  check(!graph.values()[static_cast<std::size_t>(x.index)].wants_gradient, "warp_images has no gradient for images");
  return graph.add_op({.name = name,
                       .definition = std::make_shared<WarpImagesDefinition>(params),
                       .inputs = {x},
                       .traits = {.pads_channels = true}},
                      shape);
}

}  // namespace carillon
