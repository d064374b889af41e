#include "kernels/elementwise/gradient_fork.h"

#include "kernels/elementwise/elementwise.h"

namespace carillon {
namespace {

class NoWork final : public Op {
 public:
  void forward(Stream& /*stream*/) override {}
  void backward(Stream& /*stream*/) override {}
};

class GradientForkDefinition final : public OpDefinition {
 public:
  std::string_view type() const override { return "gradient_fork"; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::optional<int> output_shares_input(int /*output*/) const override { return 0; }
  std::optional<int> gradient_shares_output(int input) const override { return input; }
  std::unique_ptr<Op> instantiate(const OpContext& /*context*/, const OpTensors& /*tensors*/) const override {
    return std::make_unique<NoWork>();
  }
};

}  // namespace

Graph::NewOp gradient_fork_op() {
  return {.name = {}, .definition = std::make_shared<GradientForkDefinition>(), .inputs = {}};
}

GradientOps gradient_ops() {
  return {.fork = fork_op(), .gradient_fork = gradient_fork_op(), .parameter_sum = parameter_sum_op()};
}

}  // namespace carillon
