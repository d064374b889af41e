#include "kernels/mean_loss/mean_loss.h"

#include "kernels/shared/backend.h"

namespace carillon {
namespace {

std::string_view name_of(MeanLossKind kind) {
  switch (kind) {
    case MeanLossKind::sigmoid_cross_entropy:
      return "sigmoid_cross_entropy";
    case MeanLossKind::squared_error:
      return "squared_error";
    case MeanLossKind::absolute_error:
      return "absolute_error";
    default:
      return "huber";
  }
}

class MeanLossDefinition final : public OpDefinition {
 public:
  explicit MeanLossDefinition(const MeanLossParams& params) : params_(params) {}
  std::string_view type() const override { return name_of(params_.kind); }
  BackwardNeeds backward_needs() const override { return {.inputs = true, .outputs = false}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return make_mean_loss_cpu(params_, context, tensors); },
        [&] { return make_mean_loss_cuda(params_, context, tensors); });
  }

 private:
  MeanLossParams params_;
};

const OpTraits mean_loss_traits{.writes_step_sums = [](DeviceKind kind) { return kind == DeviceKind::cuda; }};

}  // namespace

Value mean_loss(Graph& graph, const std::string& name, Value outputs, Value targets, const MeanLossParams& params) {
  check(params.kind != MeanLossKind::huber || params.delta > 0.0f, "huber requires a delta above 0");
  const Graph::ValueInfo& target = graph.values().at(static_cast<std::size_t>(targets.index));
  const bool has_type = target.type == DType::u8 || target.type == DType::f32;
  check(target.is_input && has_type && target.shape == graph.shape(outputs) && target.shape.rank() == 2,
        "targets must be a target of the graph with one uint8 or float32 per output");
  return graph.add_op({.name = name,
                       .definition = std::make_shared<MeanLossDefinition>(params),
                       .inputs = {outputs, targets},
                       .traits = mean_loss_traits},
                      Shape{});
}

}  // namespace carillon
