#include "carillon/graph/executable.h"

#include <algorithm>

#include "carillon/core/error.h"

namespace carillon {

Executable::Executable(const Graph& graph, const ExecutableContext& context, bool training,
                       std::vector<Value> results) {
  place_tensors(graph, context.device, training, results);
  const OpContext of_ops{
      .device = &context.device, .arithmetic = graph.arithmetic(), .training = training, .step = &context.inputs};
  for (const Graph::Node& node : graph.nodes()) {
    ops_.push_back(node.definition->instantiate(of_ops, tensors_of(node, context, training)));
    op_parameters_.emplace_back(node.parameters.rbegin(), node.parameters.rend());
    const bool has_gradients = std::any_of(node.outputs.begin(), node.outputs.end(),
                                           [&](int value) { return graph.values()[value].wants_gradient; });
    runs_backward_.push_back(training && has_gradients);
  }
}

void Executable::place_tensors(const Graph& graph, Device& device, bool training, std::span<const Value> results) {
  const std::vector<Lifetime> lifetimes = tensor_lifetimes(graph, training, results);
  const MemoryPlan plan = plan_memory(lifetimes);
  memory_ = device.allocate(plan.peak_bytes);
  const std::size_t value_count = graph.values().size();
  for (std::size_t i = 0; i < lifetimes.size(); ++i) {
    const Graph::ValueInfo& value = graph.values()[i % value_count];
    const bool used = lifetimes[i].first <= lifetimes[i].last;
    Tensor tensor{used ? static_cast<std::byte*>(memory_.data()) + plan.offsets[i] : nullptr, value.shape, value.type};
    (i < value_count ? values_ : gradients_).push_back(std::move(tensor));
  }
}

OpTensors Executable::tensors_of(const Graph::Node& node, const ExecutableContext& context, bool training) const {
  OpTensors tensors;
  for (const int value : node.inputs) {
    tensors.inputs.push_back(values_[value]);
    if (training) tensors.input_gradients.push_back(gradients_[value]);
  }
  for (const int value : node.outputs) {
    tensors.outputs.push_back(values_[value]);
    if (training) tensors.output_gradients.push_back(gradients_[value]);
  }
  for (const int parameter : node.parameters) {
    tensors.parameters.push_back(context.parameters.value(parameter));
    if (training) tensors.parameter_gradients.push_back(context.parameters.gradient(parameter));
  }
  for (const int state : node.states) tensors.states.push_back(context.states.tensor(state));
  return tensors;
}

void Executable::forward(Stream& stream) {
  for (const auto& op : ops_) op->forward(stream);
}

void Executable::backward(Stream& stream, const std::function<void(int)>& parameter_done) {
  for (std::size_t i = ops_.size(); i-- > 0;) {
    if (!runs_backward_[i]) continue;
    ops_[i]->backward(stream);
    for (const int parameter : op_parameters_[i]) parameter_done(parameter);
  }
}

}  // namespace carillon
