#include "kernels/warp_images/warp_images.h"

#include "kernels/shared/backend.h"

namespace carillon {
namespace {

class WarpImagesDefinition final : public OpDefinition {
 public:
  explicit WarpImagesDefinition(const WarpParams& params) : params_(params) {}
  std::string_view type() const override { return "warp_images"; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return make_warp_images_cpu(params_, context, tensors); },
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
