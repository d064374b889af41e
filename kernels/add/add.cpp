#include "kernels/add/add.h"

#include "kernels/shared/backend.h"

namespace carillon {
namespace {

class AddDefinition final : public OpDefinition {
 public:
  std::string_view type() const override { return "add"; }
  BackwardNeeds backward_needs() const override { return {}; }
  /// One of them only: the op behind it may use its gradient as scratch.
  std::optional<int> gradient_shares_output(int input) const override {
    return input == 0 ? std::optional(0) : std::nullopt;
  }
  std::string to_onnx(OperatorGraph& operators, const OpOperands& operands) const {
    return operators.add("Add", {operands.inputs.at(0), operands.inputs.at(1)});
  }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return make_add_cpu(context, tensors); }, [&] { return make_add_cuda(context, tensors); });
  }
};

}  // namespace

Value add(Graph& graph, const std::string& name, Value a, Value b) {
  const Shape shape = graph.shape(a);
  if (shape != graph.shape(b)) {
    fail(ExitCode::failed, "add {}: {} and {} are of different shapes", name, shape.text(), graph.shape(b).text());
  }
  return graph.add_op({.name = name,
                       .definition = std::make_shared<AddDefinition>(),
                       .inputs = {a, b},
                       .traits = {.to_onnx = trait<&AddDefinition::to_onnx>}},
                      shape);
}

}  // namespace carillon
