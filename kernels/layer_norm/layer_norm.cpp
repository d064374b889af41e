#include "kernels/layer_norm/layer_norm.h"

#include "kernels/shared/backend.h"
#include "kernels/shared/operators.h"

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
  /// ONNX images are [batch, channels, height, width], and LayerNormalization applies to the last extents.
  std::string to_onnx(OperatorGraph& operators, const OpOperands& operands) const {
    check(!accumulates_dx_, "only the layer norms of an evaluation can be exported");
    using Extents = std::vector<std::int64_t>;
    const bool is_image = operands.input.rank() == 4;
    std::string x = operands.inputs.at(0);
    if (is_image) x = operators.add("Transpose", {x}, {{"perm", Extents{0, 2, 3, 1}}});
    const std::string gamma = constant_of(operators, operands.parameters.at(0));
    const std::string beta = constant_of(operators, operands.parameters.at(1));
    const std::string y = operators.add("LayerNormalization", {x, gamma, beta},
                                        {{"axis", std::int64_t{-1}}, {"epsilon", params_.epsilon}});
    return is_image ? operators.add("Transpose", {y}, {{"perm", Extents{0, 3, 1, 2}}}) : y;
  }

 private:
  LayerNormParams params_;
  bool accumulates_dx_;
};

const OpTraits layer_norm_traits{.accumulating = trait<&LayerNormDefinition::accumulating>,
                                 .keeps_output_gradient = [](const OpDefinition&) { return true; },
                                 .samples_are_independent = true,
                                 .to_onnx = trait<&LayerNormDefinition::to_onnx>};

}  // namespace

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
                       .traits = layer_norm_traits},
                      shape);
}

}  // namespace carillon
