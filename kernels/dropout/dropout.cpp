#include "kernels/dropout/dropout.h"

#include "carillon/core/philox.h"
#include "kernels/shared/backend.h"

namespace carillon {
namespace {

class DropoutDefinition final : public OpDefinition {
 public:
  explicit DropoutDefinition(const DropoutDraws& draws) : draws_(draws) {}
  std::string_view type() const override { return draws_.whole_samples ? "drop_path" : "dropout"; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::optional<int> gradient_shares_output(int /*input*/) const override { return 0; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return make_dropout_cpu(draws_, context, tensors); },
        [&] { return make_dropout_cuda(draws_, context, tensors); });
  }

 private:
  DropoutDraws draws_;
};

Value add_dropout(Graph& graph, const std::string& name, Value x, const DropoutParams& params, bool whole_samples) {
  check(params.rate >= 0.0f && params.rate < 1.0f, "dropout requires a rate from 0 to below 1");
  if (!params.training || params.rate == 0.0f) return x;
  const DropoutDraws draws{philox_key_of(params.seed, RandomPurpose::dropout, name), params.rate, whole_samples};
  return graph.add_op({.name = name,
                       .definition = std::make_shared<DropoutDefinition>(draws),
                       .inputs = {x},
                       .type = whole_samples ? &drop_path_op : &dropout_op,
                       .attributes = attributes_of(params)},
                      graph.shape(x));
}

DropoutParams read_params(const Graph& graph, const Attributes& attributes) {
  auto params = params_of<DropoutParams>(attributes);
  params.training = graph.context().training;
  params.seed = graph.context().seed;
  return params;
}

}  // namespace

const OpType dropout_op{
    .name = "dropout",
    .build = [](Graph& graph, const std::string& name, std::span<const Value> inputs, const Attributes& attributes) {
      return outputs_of(dropout(graph, name, inputs[0], read_params(graph, attributes)));
    }};
const OpType drop_path_op{
    .name = "drop_path",
    .build = [](Graph& graph, const std::string& name, std::span<const Value> inputs, const Attributes& attributes) {
      return outputs_of(drop_path(graph, name, inputs[0], read_params(graph, attributes)));
    }};

Value dropout(Graph& graph, const std::string& name, Value x, const DropoutParams& params) {
  return add_dropout(graph, name, x, params, false);
}

Value drop_path(Graph& graph, const std::string& name, Value x, const DropoutParams& params) {
  return add_dropout(graph, name, x, params, true);
}

}  // namespace carillon
