#include "kernels/dense/dense.h"

#include "kernels/shared/backend.h"

namespace carillon {
namespace {

class DenseDefinition final : public OpDefinition {
 public:
  explicit DenseDefinition(const DenseForm& form) : form_(form) {}
  std::string_view type() const override { return "dense"; }
  BackwardNeeds backward_needs() const override { return {.inputs = true, .outputs = form_.relu}; }
  std::shared_ptr<const OpDefinition> with_relu_behind() const override {
    return std::make_shared<DenseDefinition>(DenseForm{.relu = true, .input_density = form_.input_density});
  }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return make_dense_cpu(form_, context, tensors); },
        [&] { return make_dense_cuda(form_.relu, context, tensors); });
  }

 private:
  DenseForm form_;
};

}  // namespace

Value dense(Graph& graph, const std::string& name, Value x, const DenseParams& params) {
  const std::int64_t in = graph.shape(x).elements_per_sample();
  const int weights = graph.add_parameter({name + "/weights", {in, params.units}, params.weights, params.l2_factor});
  const int biases = graph.add_parameter({name + "/biases", {params.units}, params.biases, 0.0f});
  return graph.add_op(
      {.name = name,
       .definition = std::make_shared<DenseDefinition>(DenseForm{.input_density = params.input_density}),
       .inputs = {x},
       .parameters = {weights, biases}},
      {graph.batch_size(), params.units});
}

}  // namespace carillon
