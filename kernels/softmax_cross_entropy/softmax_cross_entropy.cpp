#include "kernels/softmax_cross_entropy/softmax_cross_entropy.h"

#include "kernels/shared/backend.h"

namespace carillon {
namespace {

class SoftmaxCrossEntropyDefinition final : public OpDefinition {
 public:
  std::string_view type() const override { return "softmax_cross_entropy"; }
  BackwardNeeds backward_needs() const override { return {.inputs = true, .outputs = false}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return make_softmax_cross_entropy_cpu(context, tensors); },
        [&] { return make_softmax_cross_entropy_cuda(context, tensors); });
  }
};

}  // namespace

Value softmax_cross_entropy(Graph& graph, const std::string& name, Value logits) {
  return graph.add_op(
      {.name = name, .definition = std::make_shared<SoftmaxCrossEntropyDefinition>(), .inputs = {logits}}, Shape{});
}

}  // namespace carillon
