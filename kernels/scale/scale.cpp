#include "kernels/scale/scale.h"

#include "kernels/shared/backend.h"

namespace carillon {
namespace {

class ScaleDefinition final : public OpDefinition {
 public:
  explicit ScaleDefinition(float factor) : factor_(factor) {}
  std::string_view type() const override { return "scale"; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::optional<int> gradient_shares_output(int /*input*/) const override { return 0; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return make_scale_cpu(factor_, context, tensors); },
        [&] { return make_scale_cuda(factor_, context, tensors); });
  }
  std::string to_onnx(OperatorGraph& operators, const OpOperands& operands) const {
    return operators.add("Mul", {operands.inputs.at(0), operators.constant({}, {factor_})});
  }

 private:
  float factor_;
};

}  // namespace

Value scale(Graph& graph, const std::string& name, Value x, float factor) {
  return graph.add_op({.name = name,
                       .definition = std::make_shared<ScaleDefinition>(factor),
                       .inputs = {x},
                       .traits = {.to_onnx = trait<&ScaleDefinition::to_onnx>}},
                      graph.shape(x));
}

}  // namespace carillon
