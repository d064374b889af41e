#include "kernels/relu/relu.h"

#include "kernels/shared/backend.h"

namespace carillon {
namespace {

class ReluDefinition final : public OpDefinition {
 public:
  std::string_view type() const override { return "relu"; }
  BackwardNeeds backward_needs() const override { return {.inputs = false, .outputs = true}; }
  std::optional<int> gradient_shares_output(int /*input*/) const override { return 0; }
  std::string to_onnx(OperatorGraph& operators, const OpOperands& operands) const {
    return operators.add("Relu", {operands.inputs.at(0)});
  }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return make_relu_cpu(context, tensors); }, [&] { return make_relu_cuda(context, tensors); });
  }
};

}  // namespace

Value relu(Graph& graph, const std::string& name, Value x) {
  return graph.add_op({.name = name,
                       .definition = std::make_shared<ReluDefinition>(),
                       .inputs = {x},
                       .traits = {.to_onnx = trait<&ReluDefinition::to_onnx>}},
                      graph.shape(x));
}

}  // namespace carillon
