#include "kernels/fork/fork.h"

#include "kernels/shared/backend.h"

namespace carillon {
namespace {

class ForkDefinition final : public OpDefinition {
 public:
  std::string_view type() const override { return "fork"; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::optional<int> output_shares_input(int /*output*/) const override { return 0; }
  std::optional<int> gradient_shares_output(int /*input*/) const override { return 0; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return make_fork_cpu(context, tensors); }, [&] { return make_fork_cuda(context, tensors); });
  }
};

}  // namespace

Graph::NewOp fork_op() {
  return {.name = {},
          .definition = std::make_shared<ForkDefinition>(),
          .inputs = {},
          .traits = {.to_onnx = [](const OpDefinition&, OperatorGraph&, const OpOperands& operands) {
            return operands.inputs.at(0);
          }}};
}

}  // namespace carillon
