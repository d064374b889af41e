#include "kernels/softmax_cross_entropy/softmax_cross_entropy.h"

#include "kernels/shared/backend.h"
#include "kernels/softmax_cross_entropy/softmax_cross_entropy_kernels.h"

namespace carillon {
namespace {

class SoftmaxCrossEntropyDefinition final : public OpDefinition {
 public:
  explicit SoftmaxCrossEntropyDefinition(const SoftmaxCrossEntropyParams& params) : params_(params) {}
  std::string_view type() const override { return "softmax_cross_entropy"; }
  BackwardNeeds backward_needs() const override { return {.inputs = true, .outputs = false}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return make_softmax_cross_entropy_cpu(params_, context, tensors); },
        [&] { return make_softmax_cross_entropy_cuda(params_, context, tensors); });
  }

 private:
  SoftmaxCrossEntropyParams params_;
};

/// Few blocks only: the last block sums over all samples.
bool sums_input_gradient(DeviceKind kind, const Shape& logits) {
  return kind == DeviceKind::cuda && softmax_blocks(logits[0], logits[1]) <= 8;
}

const OpTraits softmax_cross_entropy_traits{
    .sums_input_gradient = sums_input_gradient,
    .writes_step_sums = [](DeviceKind kind) { return kind == DeviceKind::cuda; },
};

}  // namespace

Value softmax_cross_entropy(Graph& graph, const std::string& name, Value logits, Value labels,
                            const SoftmaxCrossEntropyParams& params) {
  check(params.label_smoothing >= 0.0f && params.label_smoothing <= 1.0f, "a label smoothing is from 0 to 1");
  const Graph::ValueInfo& target = graph.values().at(static_cast<std::size_t>(labels.index));
  check(target.is_input && target.type == DType::i32 && target.shape == Shape{graph.batch_size()},
        "labels are a target of the graph, one int32 for each sample");
  return graph.add_op({.name = name,
                       .definition = std::make_shared<SoftmaxCrossEntropyDefinition>(params),
                       .inputs = {logits, labels},
                       .traits = softmax_cross_entropy_traits},
                      Shape{});
}

}  // namespace carillon
