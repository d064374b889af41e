#include "kernels/batch_norm/batch_norm.h"

#include "kernels/elementwise/functions.h"
#include "kernels/shared/backend.h"

namespace carillon {
namespace {

class BatchNormDefinition final : public OpDefinition {
 public:
  explicit BatchNormDefinition(const BatchNormForm& form) : form_(form) {}
  std::string_view type() const override { return "batch_norm"; }
  BackwardNeeds backward_needs() const override {
    return {.inputs = true, .outputs = form_.has_addend && form_.activation != ActivationKind::none};
  }
  std::optional<int> gradient_shares_output(int input) const override {
    return input == (form_.has_addend ? 1 : 0) ? std::optional(0) : std::nullopt;
  }
  std::shared_ptr<const OpDefinition> with_activation(ActivationKind activation) const {
    if (form_.activation != ActivationKind::none) return nullptr;
    if (form_.has_addend && activation != ActivationKind::relu) return nullptr;  // backward computes f' from y
    BatchNormForm activated = form_;
    activated.activation = activation;
    return std::make_shared<BatchNormDefinition>(activated);
  }
  std::shared_ptr<const OpDefinition> with_addend() const {
    if (form_.has_addend || form_.activation != ActivationKind::none) return nullptr;
    BatchNormForm form = form_;
    form.has_addend = true;
    return std::make_shared<BatchNormDefinition>(form);
  }
  std::shared_ptr<const OpDefinition> summing_gradients() const {
    if (!form_.has_addend || form_.activation != ActivationKind::relu) return nullptr;
    BatchNormForm form = form_;
    form.has_second_gradient = true;
    return std::make_shared<BatchNormDefinition>(form);
  }
  std::shared_ptr<const OpDefinition> synchronized() const {
    BatchNormForm form = form_;
    form.over_all_towers = true;
    return std::make_shared<BatchNormDefinition>(form);
  }
  std::shared_ptr<const OpDefinition> frozen() const {
    BatchNormForm form = form_;
    form.frozen = true;
    return std::make_shared<BatchNormDefinition>(form);
  }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context,
        [&] {
          check(!form_.has_second_gradient, "only a batch norm on a GPU can read two gradients");
          return make_batch_norm_cpu(form_, context, tensors);
        },
        [&] { return make_batch_norm_cuda(form_, context, tensors); });
  }

 private:
  BatchNormForm form_;
};

const OpTraits batch_norm_traits{
    .with_activation = trait<&BatchNormDefinition::with_activation>,
    .with_addend = trait<&BatchNormDefinition::with_addend>,
    .synchronized = trait<&BatchNormDefinition::synchronized>,
    .frozen = trait<&BatchNormDefinition::frozen>,
    .summing_gradients = trait<&BatchNormDefinition::summing_gradients>,
};

}  // namespace

const OpType batch_norm_op = op_type<BatchNormParams, batch_norm>("batch_norm");

Value batch_norm(Graph& graph, const std::string& name, Value x, const BatchNormParams& params) {
  const Shape shape = graph.shape(x);
  if (shape.rank() < 2) fail(ExitCode::failed, "batch_norm {}: input {} has no channels", name, shape.text());
  check(params.epsilon > 0.0f && params.momentum >= 0.0f && params.momentum <= 1.0f,
        "batch_norm requires epsilon > 0 and momentum from 0 to 1");
  const Shape channels{shape.extents().back()};
  std::vector<int> parameters;
  if (params.trains_scale) {
    parameters.push_back(
        graph.add_parameter({name + "/gamma", channels, {Initializer::Kind::constant, params.initial_scale}}));
  }
  parameters.push_back(graph.add_parameter({name + "/beta", channels, {}}));
  const int mean = graph.add_buffer({name + "/moving_mean", channels, 0.0f, AcrossRanks::mean});
  const int variance = graph.add_buffer({name + "/moving_variance", channels, 1.0f, AcrossRanks::mean});
  return graph.add_op({.name = name,
                       .definition = std::make_shared<BatchNormDefinition>(BatchNormForm{.params = params}),
                       .inputs = {x},
                       .parameters = parameters,
                       .buffers = {mean, variance},
                       .traits = batch_norm_traits,
                       .type = &batch_norm_op,
                       .attributes = attributes_of(params)},
                      shape);
}

}  // namespace carillon
