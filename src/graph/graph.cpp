#include "carillon/graph/graph.h"

#include <algorithm>

#include "carillon/core/error.h"

namespace carillon {

Graph::Graph(std::int64_t batch_size, DType activations) : batch_size_(batch_size), activations_(activations) {
  check(batch_size > 0, "a graph needs a batch");
}

int Graph::add_parameter(ParameterSpec spec) {
  for (const ParameterSpec& other : parameters_) {
    if (other.name == spec.name) fail(ExitCode::failed, "the model has two variables named '{}'", spec.name);
  }
  parameters_.push_back(std::move(spec));
  return static_cast<int>(parameters_.size()) - 1;
}

Value Graph::add_op(std::string name, std::shared_ptr<const OpDefinition> definition, const std::vector<Value>& inputs,
                    std::vector<int> parameters, Shape output_shape) {
  const int op = static_cast<int>(nodes_.size());
  Node node{std::move(name), std::move(definition), {}, {}, std::move(parameters)};
  bool wants_gradient = !node.parameters.empty();
  for (const Value input : inputs) {
    ValueInfo& info = values_.at(input.index);
    if (info.consumer >= 0) fail(ExitCode::failed, "op '{}' reads '{}', which another op reads", node.name, info.name);
    info.consumer = op;
    wants_gradient = wants_gradient || info.wants_gradient;
    node.inputs.push_back(input.index);
  }
  const Value output{static_cast<int>(values_.size())};
  node.outputs.push_back(output.index);
  const DType type = output_shape.rank() == 0 ? DType::f32 : activations_;
  values_.push_back({node.name, std::move(output_shape), type, op, -1, wants_gradient});
  nodes_.push_back(std::move(node));
  return output;
}

}  // namespace carillon
