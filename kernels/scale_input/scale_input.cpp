#include "kernels/scale_input/scale_input.h"

#include "kernels/shared/backend.h"

namespace carillon {
namespace {

class ScaleInputDefinition final : public OpDefinition {
 public:
  explicit ScaleInputDefinition(ScaleInputParams params) : params_(std::move(params)) {}
  std::string_view type() const override { return "scale_input"; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return make_scale_input_cpu(params_, context, tensors); },
        [&] { return make_scale_input_cuda(params_, context, tensors); });
  }
  std::string to_onnx(OperatorGraph& operators, const OpOperands& operands) const {
    return operators.add("Mul", {operands.inputs.at(0), operators.constant({}, {params_.scale})});
  }

 private:
  ScaleInputParams params_;
};

}  // namespace

Value scale_input(Graph& graph, const std::string& name, const ScaleInputParams& params) {
  std::vector<std::int64_t> extents = params.sample.extents();
  extents.insert(extents.begin(), graph.batch_size());
  const OpTraits traits{.pads_channels = params.sample.rank() == 3, .to_onnx = trait<&ScaleInputDefinition::to_onnx>};
  return graph.add_op(
      {.name = name, .definition = std::make_shared<ScaleInputDefinition>(params), .inputs = {}, .traits = traits},
      Shape(std::move(extents)));
}

}  // namespace carillon
