#include "kernels/dense/dense.h"

#include "kernels/shared/backend.h"

namespace carillon {
namespace {

class DenseDefinition final : public OpDefinition {
 public:
  DenseDefinition(const DenseForm& form, bool has_biases) : form_(form), has_biases_(has_biases) {}
  std::string_view type() const override { return "dense"; }
  BackwardNeeds backward_needs() const override { return {.inputs = true, .outputs = form_.relu}; }
  std::shared_ptr<const OpDefinition> with_activation(ActivationKind activation) const {
    if (activation != ActivationKind::relu || !has_biases_) return nullptr;
    DenseForm form = form_;
    form.relu = true;
    return std::make_shared<DenseDefinition>(form, true);
  }
  std::optional<int> column_summed_parameter() const {
    return has_biases_ && !form_.relu ? std::optional(1) : std::nullopt;
  }
  bool keeps_output_gradient() const { return !form_.relu; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return make_dense_cpu(form_, context, tensors); },
        [&] { return make_dense_cuda(form_.relu, context, tensors); });
  }

 private:
  DenseForm form_;
  bool has_biases_;
};

const OpTraits dense_traits{
    .with_activation = trait<&DenseDefinition::with_activation>,
    .keeps_output_gradient = trait<&DenseDefinition::keeps_output_gradient>,
    .compute_copy_format = [](int /*parameter*/) { return ComputeCopyFormat::same_layout; },
    .column_summed_parameter = trait<&DenseDefinition::column_summed_parameter>,
};

}  // namespace

const OpType dense_op = op_type<DenseParams, dense>("dense");

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
                       .traits = dense_traits,
                       .type = &dense_op,
                       .attributes = attributes_of(params)},
                      Shape(std::move(output)));
}

}  // namespace carillon
