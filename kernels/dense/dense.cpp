#include "kernels/dense/dense.h"

#include "carillon/graph/gradient_sharing.h"
#include "kernels/shared/backend.h"
#include "kernels/shared/operators.h"

namespace carillon {
namespace {

class DenseDefinition final : public OpDefinition, public GradientSharing {
 public:
  DenseDefinition(const DenseForm& form, bool has_biases) : form_(form), has_biases_(has_biases) {}
  std::string_view type() const override { return "dense"; }
  BackwardNeeds backward_needs() const override { return {.inputs = true, .outputs = form_.relu}; }
  std::shared_ptr<const OpDefinition> with_activation(std::string_view activation) const {
    if (activation != "relu" || !has_biases_) return nullptr;
    DenseForm form = form_;
    form.relu = true;
    return std::make_shared<DenseDefinition>(form, true);
  }
  std::optional<int> column_summed_parameter() const {
    return has_biases_ && !form_.relu ? std::optional(1) : std::nullopt;
  }
  bool keeps_output_gradient() const override { return !form_.relu; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return make_dense_cpu(form_, context, tensors); },
        [&] { return make_dense_cuda(form_.relu, context, tensors); });
  }
  std::string to_onnx(OperatorGraph& operators, const OpOperands& operands) const {
    if (form_.per_position) return per_position_to_onnx(operators, operands);
    std::string x = operands.inputs.at(0);
    if (operands.input.rank() == 4) {  // the rows of the weights are in the order height, width, channels
      x = operators.add("Transpose", {x}, {{"perm", std::vector<std::int64_t>{0, 2, 3, 1}}});
    }
    if (operands.input.rank() != 2) x = operators.add("Flatten", {x});
    std::vector<std::string> inputs{x, constant_of(operators, operands.parameters.at(0))};
    if (has_biases_) inputs.push_back(constant_of(operators, operands.parameters.at(1)));
    const std::string y = operators.add(has_biases_ ? "Gemm" : "MatMul", std::move(inputs));
    return form_.relu ? operators.add("Relu", {y}) : y;
  }

 private:
  /// Gemm requires matrices.
  std::string per_position_to_onnx(OperatorGraph& operators, const OpOperands& operands) const {
    const bool has_images = operands.input.rank() == 4;
    std::string y = operands.inputs.at(0);
    if (has_images) y = operators.add("Transpose", {y}, {{"perm", std::vector<std::int64_t>{0, 2, 3, 1}}});
    y = operators.add("MatMul", {y, constant_of(operators, operands.parameters.at(0))});
    if (has_biases_) y = operators.add("Add", {y, constant_of(operators, operands.parameters.at(1))});
    if (form_.relu) y = operators.add("Relu", {y});
    return has_images ? operators.add("Transpose", {y}, {{"perm", std::vector<std::int64_t>{0, 3, 1, 2}}}) : y;
  }

  DenseForm form_;
  bool has_biases_;
};

const OpTraits dense_traits{
    .with_activation = trait<&DenseDefinition::with_activation>,
    .compute_copy_format = [](int /*parameter*/) { return ComputeCopyFormat::same_layout; },
    .column_summed_parameter = trait<&DenseDefinition::column_summed_parameter>,
    .to_onnx = trait<&DenseDefinition::to_onnx>,
};

}  // namespace

Value dense(Graph& graph, const std::string& name, Value x, const DenseParams& params) {
  const Shape& shape = graph.shape(x);
  const std::int64_t in = params.per_position ? shape.extents().back() : shape.elements_per_sample();
  std::vector<std::int64_t> output{shape[0], params.units};
  if (params.per_position) {
    output = shape.extents();
    output.back() = params.units;
  }
  std::vector<int> parameters{
      graph.add_parameter({name + "/weights", {in, params.units}, params.weights, params.l2_factor})};
  if (params.biases) parameters.push_back(graph.add_parameter({name + "/biases", {params.units}, *params.biases}));
  const DenseForm form{.input_density = params.input_density, .per_position = params.per_position};
  return graph.add_op({.name = name,
                       .definition = std::make_shared<DenseDefinition>(form, params.biases.has_value()),
                       .inputs = {x},
                       .parameters = parameters,
                       .traits = dense_traits},
                      Shape(std::move(output)));
}

}  // namespace carillon
