#include "kernels/scale_input/scale_input.h"

#include "kernels/shared/backend.h"

namespace carillon {
namespace {

class ScaleInputDefinition final : public OpDefinition {
 public:
  explicit ScaleInputDefinition(ScaleInputParams params) : params_(std::move(params)) {}
  std::string_view type() const override { return "scale_input"; }
  BackwardNeeds backward_needs() const override { return {}; }
  bool pads_channels() const override { return params_.sample.rank() == 3; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return make_scale_input_cpu(params_, context, tensors); },
        [&] { return make_scale_input_cuda(params_, context, tensors); });
  }
  std::string in_operators(OperatorGraph& operators, const OpOperands& operands) const override {
    return operators.add("Mul", {operands.inputs.at(0), operators.constant({}, {params_.scale})});
  }

 private:
  ScaleInputParams params_;
};

}  // namespace

Value scale_input(Graph& graph, const std::string& name, const ScaleInputParams& params) {
  std::vector<std::int64_t> extents = params.sample.extents();
  extents.insert(extents.begin(), graph.batch_size());
  return graph.add_op({.name = name, .definition = std::make_shared<ScaleInputDefinition>(params), .inputs = {}},
                      Shape(std::move(extents)));
}

}  // namespace carillon
