#include "kernels/layer_norm/layer_norm.h"

#include "kernels/shared/backend.h"

namespace carillon {
namespace {

class LayerNormDefinition final : public OpDefinition {
 public:
  explicit LayerNormDefinition(const LayerNormParams& params, bool accumulates_dx = false)
      : params_(params), accumulates_dx_(accumulates_dx) {}
  std::string_view type() const override { return "layer_norm"; }
  BackwardNeeds backward_needs() const override { return {.inputs = true, .outputs = false}; }
  std::shared_ptr<const OpDefinition> accumulating(DeviceKind device, DType /*type*/) const {
    return device == DeviceKind::cuda ? std::make_shared<LayerNormDefinition>(params_, true) : nullptr;
  }
  std::optional<int> output_shares_input(int output) const override {
    return accumulates_dx_ && output == 1 ? std::optional(0) : std::nullopt;
  }
  std::optional<int> gradient_shares_output(int /*input*/) const override {
    return accumulates_dx_ ? std::optional(1) : std::nullopt;
  }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    check(!accumulates_dx_ || context.device->kind() == DeviceKind::cuda,
          "only a layer norm on a GPU can add to a gradient");
    return on_device(
        context, [&] { return make_layer_norm_cpu(params_, context, tensors); },
        [&] { return make_layer_norm_cuda(params_, accumulates_dx_, context, tensors); });
  }

 private:
  LayerNormParams params_;
  bool accumulates_dx_;
};

const OpTraits layer_norm_traits{.accumulating = trait<&LayerNormDefinition::accumulating>,
                                 .keeps_output_gradient = [](const OpDefinition&) { return true; },
                                 .samples_are_independent = true};

}  // namespace

const OpType layer_norm_op = op_type<LayerNormParams, layer_norm>("layer_norm");

Value layer_norm(Graph& graph, const std::string& name, Value x, const LayerNormParams& params) {
  const Shape shape = graph.shape(x);
  if (shape.rank() < 2) fail(ExitCode::failed, "layer_norm {}: input {} has no channels", name, shape.text());
  check(params.epsilon > 0.0f, "layer_norm requires epsilon > 0");
  const Shape channels{shape.extents().back()};
  const int gamma = graph.add_parameter({name + "/gamma", channels, {Initializer::Kind::constant, 1.0f}});
  const int beta = graph.add_parameter({name + "/beta", channels, {}});
  return graph.add_op({.name = name,
                       .definition = std::make_shared<LayerNormDefinition>(params),
                       .inputs = {x},
                       .parameters = {gamma, beta},
                       .traits = layer_norm_traits,
                       .type = &layer_norm_op,
                       .attributes = attributes_of(params)},
                      shape);
}

}  // namespace carillon
