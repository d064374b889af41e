#include "kernels/elementwise/gradient_ops.h"

#include "kernels/elementwise/elementwise_map.h"

namespace carillon {
namespace {

class ForkDefinition final : public OpDefinition {
 public:
  std::string_view type() const override { return "fork"; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::optional<int> output_shares_input(int /*output*/) const override { return 0; }
  std::optional<int> gradient_shares_output(int /*input*/) const override { return 0; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    const std::vector<Tensor>& gradients = tensors.output_gradients;
    ElementwiseMaps maps;
    for (std::size_t k = 1; k < gradients.size(); ++k) {
      maps.backward.push_back({Sum{}, gradients[0], gradients[k], gradients[0]});
    }
    return make_elementwise_op(context, maps);
  }
};

class ParameterSumDefinition final : public OpDefinition {
 public:
  std::string_view type() const override { return "parameter_sum"; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    ElementwiseMaps maps;
    for (const Tensor& gradient : tensors.output_gradients) {
      const Tensor& dw = tensors.parameter_gradients.at(0);
      if (gradient) maps.backward.push_back({Sum{}, dw, gradient, dw});
    }
    return make_elementwise_op(context, maps);
  }
};

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

Graph::NewOp fork_op() {
  return {.name = {}, .definition = std::make_shared<ForkDefinition>(), .inputs = {}, .traits = {}};
}

Graph::NewOp parameter_sum_op() {
  return {.name = {}, .definition = std::make_shared<ParameterSumDefinition>(), .inputs = {}, .traits = {}};
}

Graph::NewOp gradient_fork_op() {
  return {.name = {}, .definition = std::make_shared<GradientForkDefinition>(), .inputs = {}};
}

GradientOps gradient_ops() {
  return {.fork = fork_op(), .gradient_fork = gradient_fork_op(), .parameter_sum = parameter_sum_op()};
}

}  // namespace carillon
