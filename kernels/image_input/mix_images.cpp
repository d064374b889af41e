// The definition of mix_images, and the op on a CPU, which processes image by image.
#include "kernels/image_input/image_input.h"

#include <algorithm>

#include "carillon/core/parallel.h"
#include "kernels/shared/backend.h"
#include "kernels/shared/float_type.h"

namespace carillon {
namespace {

CARILLON_SIMD void blend(const Mixing& given, ElementPointer own, ElementPointer other, std::size_t count,
                         ElementPointer out) {
  const Mixing mixing = given;
  with_float_type(
      out.type(), [&]<typename T>(std::type_identity<T>) __attribute__((always_inline)) {
        const T* __restrict a = own.as<const T>(), * __restrict b = other.as<const T>();
        T* __restrict y = out.as<T>();
        for (std::size_t i = 0; i < count; ++i) y[i] = stored_as<T>(mixing.blend(to_float(a[i]), to_float(b[i])));
      });
}

void copy(ElementPointer from, std::size_t count, ElementPointer to) {
  with_float_type(from.type(),
                  [&]<typename T>(std::type_identity<T>) { std::copy_n(from.as<T>(), count, to.as<T>()); });
}

class MixImagesCpu final : public Op {
 public:
  MixImagesCpu(const MixingParams& params, const OpContext& context, const OpTensors& tensors)
      : params_(params), step_(*context.step), x_(tensors.inputs.at(0)), y_(tensors.outputs.at(0)) {}

  void forward(Stream& /*stream*/) override {
    const Mixing mixing = draw_mixing(params_, step_.batch.first_position);
    const auto batch = static_cast<std::size_t>(x_.shape[0]),
               size = static_cast<std::size_t>(x_.shape.elements_per_sample());
    const ElementPointer x(x_), y(y_);
    parallel_items(batch, size, elementwise_grain, [&](std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i) {
        const ElementPointer own = x + i * size, other = x + mixed_with(i, batch) * size;
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
  void cut(const Mixing& mixing, ElementPointer own, ElementPointer other, std::size_t size, ElementPointer out) const {
    const std::int64_t width = x_.shape[2], channels = x_.shape[3];
    copy(own, size, out);
    for (std::int64_t row = mixing.top; row < mixing.bottom; ++row) {
      const auto at = static_cast<std::size_t>((row * width + mixing.left) * channels);
      copy(other + at, static_cast<std::size_t>((mixing.right - mixing.left) * channels), out + at);
    }
  }

  MixingParams params_;
  const StepInputs& step_;
  Tensor x_, y_;
};

class MixImagesDefinition final : public OpDefinition {
 public:
  explicit MixImagesDefinition(const MixingParams& params) : params_(params) {}
  std::string_view type() const override { return "mix_images"; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return std::make_unique<MixImagesCpu>(params_, context, tensors); },
        [&] { return make_mix_images_cuda(params_, context, tensors); });
  }

 private:
  MixingParams params_;
};

}  // namespace

Value mix_images(Graph& graph, const std::string& name, Value x, const MixingParams& params) {
  const Shape shape = graph.shape(x);
  check(shape.rank() == 4 && shape[1] == params.height && shape[2] == params.width,
        "mix_images requires images [batch, height, width, channels] with the extents of its parameters");
  check(!graph.values()[static_cast<std::size_t>(x.index)].wants_gradient, "mix_images has no gradient for images");
  return graph.add_op({.name = name,
                       .definition = std::make_shared<MixImagesDefinition>(params),
                       .inputs = {x},
                       .traits = {.pads_channels = true}},
                      shape);
}

}  // namespace carillon
