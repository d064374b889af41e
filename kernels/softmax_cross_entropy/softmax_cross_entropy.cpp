#include "kernels/softmax_cross_entropy/softmax_cross_entropy.h"

#include <algorithm>
#include <cmath>

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

/// The op computes the sums only if it has few blocks, because the last block alone sums over all blocks.
bool sums_input_gradient(DeviceKind kind, const Shape& logits) {
  return kind == DeviceKind::cuda && softmax_blocks(logits[0], logits[1]) <= 8;
}

const OpTraits softmax_cross_entropy_traits{
    .sums_input_gradient = sums_input_gradient,
    .writes_step_sums = [](DeviceKind kind) { return kind == DeviceKind::cuda; },
};

bool is_weight(float value) { return std::isfinite(value) && value >= 0.0f; }

}  // namespace

Value softmax_cross_entropy(Graph& graph, const std::string& name, Value logits, Value labels,
                            const SoftmaxCrossEntropyParams& params) {
  check(params.label_smoothing >= 0.0f && params.label_smoothing <= 1.0f, "label smoothing must be in 0..1");
  check(is_weight(params.focal_gamma) && std::ranges::all_of(params.class_weights, is_weight),
        "class weights and the focal gamma must be finite and at least 0");
  const Graph::ValueInfo& target = graph.values().at(static_cast<std::size_t>(labels.index));
  check(target.is_input && target.type == DType::i32 && target.shape == Shape{graph.batch_size()},
        "labels must be a target of the graph with one int32 per sample");
  check(
      params.class_weights.empty() || static_cast<std::int64_t>(params.class_weights.size()) == graph.shape(logits)[1],
      "softmax cross-entropy needs a weight for each class");
  return graph.add_op({.name = name,
                       .definition = std::make_shared<SoftmaxCrossEntropyDefinition>(params),
                       .inputs = {logits, labels},
                       .traits = softmax_cross_entropy_traits},
                      Shape{});
}

}  // namespace carillon
