#include "kernels/activation/activation.h"

#include "kernels/shared/backend.h"
#include "kernels/shared/operators.h"

namespace carillon {
namespace {

class ActivationDefinition final : public OpDefinition {
 public:
  explicit ActivationDefinition(ActivationKind kind) : kind_(kind) {}
  std::string_view type() const override { return kind_ == ActivationKind::gelu ? "gelu" : "silu"; }
  BackwardNeeds backward_needs() const override { return {.inputs = true, .outputs = false}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return make_activation_cpu(kind_, context, tensors); },
        [&] { return make_activation_cuda(kind_, context, tensors); });
  }
  std::string to_onnx(OperatorGraph& operators, const OpOperands& operands) const {
    return activated(operators, kind_, operands.inputs.at(0));
  }

 private:
  ActivationKind kind_;
};

Value activation(Graph& graph, const std::string& name, Value x, ActivationKind kind) {
  return graph.add_op({.name = name,
                       .definition = std::make_shared<ActivationDefinition>(kind),
                       .inputs = {x},
                       .traits = {.samples_are_independent = true, .to_onnx = trait<&ActivationDefinition::to_onnx>}},
                      graph.shape(x));
}

}  // namespace

ActivationKind activation_named(std::string_view type) {
  return type == "relu"   ? ActivationKind::relu
         : type == "gelu" ? ActivationKind::gelu
         : type == "silu" ? ActivationKind::silu
                          : ActivationKind::none;
}

Value gelu(Graph& graph, const std::string& name, Value x) { return activation(graph, name, x, ActivationKind::gelu); }
Value silu(Graph& graph, const std::string& name, Value x) { return activation(graph, name, x, ActivationKind::silu); }

}  // namespace carillon
