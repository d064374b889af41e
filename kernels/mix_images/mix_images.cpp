#include "kernels/mix_images/mix_images.h"

#include "kernels/shared/backend.h"

namespace carillon {
namespace {

class MixImagesDefinition final : public OpDefinition {
 public:
  explicit MixImagesDefinition(const MixingParams& params) : params_(params) {}
  std::string_view type() const override { return "mix_images"; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return make_mix_images_cpu(params_, context, tensors); },
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
