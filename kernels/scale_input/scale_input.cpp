#include "kernels/scale_input/scale_input.h"

#include "kernels/shared/backend.h"

namespace carillon {
namespace {

class ScaleInputDefinition final : public OpDefinition {
 public:
  explicit ScaleInputDefinition(ScaleInputParams params) : params_(std::move(params)) {}
  std::string_view type() const override { return "scale_input"; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return make_scale_input_cpu(params_, context, tensors); },
        [&] { return make_scale_input_cuda(params_, context, tensors); });
  }

 private:
  ScaleInputParams params_;
};

}  // namespace

const OpType scale_input_op{
    .name = "scale_input",
    .input_count = 0,
    .reads_records = true,
    .build = [](Graph& graph, const std::string& name, std::span<const Value>, const Attributes& attributes) {
      auto params = params_of<ScaleInputParams>(attributes);
      const ImageShape& image = graph.context().image;
      params.sample = {image.height, image.width, image.channels};
      return outputs_of(scale_input(graph, name, params));
    }};

Value scale_input(Graph& graph, const std::string& name, const ScaleInputParams& params) {
  std::vector<std::int64_t> extents = params.sample.extents();
  extents.insert(extents.begin(), graph.batch_size());
  const OpTraits traits{.pads_channels = params.sample.rank() == 3};
  return graph.add_op({.name = name,
                       .definition = std::make_shared<ScaleInputDefinition>(params),
                       .inputs = {},
                       .traits = traits,
                       .type = &scale_input_op,
                       .attributes = attributes_of(params)},
                      Shape(std::move(extents)));
}

}  // namespace carillon
