#include "kernels/scale_channels/scale_channels.h"

#include "kernels/shared/backend.h"

namespace carillon {
namespace {

class ScaleChannelsDefinition final : public OpDefinition {
 public:
  std::string_view type() const override { return "scale_channels"; }
  BackwardNeeds backward_needs() const override { return {.inputs = true, .outputs = false}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return make_scale_channels_cpu(context, tensors); },
        [&] { return make_scale_channels_cuda(context, tensors); });
  }
};

const OpTraits scale_channels_traits{
    .keeps_output_gradient = [](const OpDefinition&) { return true; },
    .sums_input_gradient = [](DeviceKind kind, const Shape&) { return kind == DeviceKind::cuda; },
    .samples_are_independent = true};

}  // namespace

const OpType scale_channels_op = op_type<ScaleChannelsParams, scale_channels>("scale_channels");

Value scale_channels(Graph& graph, const std::string& name, Value x, const ScaleChannelsParams& params) {
  const Shape shape = graph.shape(x);
  if (shape.rank() < 2) fail(ExitCode::failed, "scale_channels {}: input {} has no channels", name, shape.text());
  const int gamma = graph.add_parameter(
      {name + "/gamma", {shape.extents().back()}, {Initializer::Kind::constant, params.initial_factor}});
  return graph.add_op({.name = name,
                       .definition = std::make_shared<ScaleChannelsDefinition>(),
                       .inputs = {x},
                       .parameters = {gamma},
                       .traits = scale_channels_traits,
                       .type = &scale_channels_op,
                       .attributes = attributes_of(params)},
                      shape);
}

}  // namespace carillon
