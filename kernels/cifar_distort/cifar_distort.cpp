#include "kernels/cifar_distort/cifar_distort.h"

#include "kernels/cifar_distort/cifar_distort_math.h"
#include "kernels/shared/backend.h"

namespace carillon {
namespace {

class CifarDistortDefinition final : public OpDefinition {
 public:
  explicit CifarDistortDefinition(CifarDistortParams params) : params_(std::move(params)) {}
  std::string_view type() const override { return "cifar_distort"; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return make_cifar_distort_cpu(params_, context, tensors); },
        [&] { return make_cifar_distort_cuda(params_, context, tensors); });
  }

 private:
  CifarDistortParams params_;
};

const OpTraits cifar_distort_traits{.pads_channels = true};

}  // namespace

const OpType cifar_distort_op{
    .name = "cifar_distort",
    .input_count = 0,
    .reads_records = true,
    .build = [](Graph& graph, const std::string& name, std::span<const Value>, const Attributes& attributes) {
      auto params = params_of<CifarDistortParams>(attributes);
      const GraphContext& context = graph.context();
      params.source = {context.image.channels, context.image.height, context.image.width};
      params.distort = context.distort && context.training;
      params.seed = context.seed;
      return outputs_of(cifar_distort(graph, name, params));
    }};

Value cifar_distort(Graph& graph, const std::string& name, const CifarDistortParams& params) {
  const Shape& source = params.source;
  check(source.rank() == 3 && source[0] >= 1 && source[0] <= max_image_channels,
        "cifar_distort requires a source of [channels, height, width] with 1 to 4 channels");
  check(params.crop_height >= 1 && params.crop_height <= source[1] && params.crop_width >= 1 &&
            params.crop_width <= source[2],
        "cifar_distort requires a crop that fits into its source");
  return graph.add_op({.name = name,
                       .definition = std::make_shared<CifarDistortDefinition>(params),
                       .inputs = {},
                       .traits = cifar_distort_traits,
                       .type = &cifar_distort_op,
                       .attributes = attributes_of(params)},
                      {graph.batch_size(), params.crop_height, params.crop_width, source[0]});
}

}  // namespace carillon
