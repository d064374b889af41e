#include "src/graph/passes.h"

#include <algorithm>

#include "src/device/cuda_backend.h"

namespace carillon {
namespace {

/// Returns a node of the op `fork` that reads the value `output`. Changes the readers of this value in `nodes`, so that
/// each of them reads its own output of the fork instead.
Graph::Node fork_after(Graph& graph, std::vector<Graph::Node>& nodes, const Graph::NewOp& fork, int output) {
  const Graph::ValueInfo value = graph.values()[output];
  Graph::Node node{.name = value.name + "/fork",
                   .definition = fork.definition,
                   .inputs = {output},
                   .outputs = {},
                   .parameters = {},
                   .buffers = {},
                   .traits = fork.traits};
  for (const int reader : value.readers) {
    const int branch = graph.add_value_like({output}).index;
    node.outputs.push_back(branch);
    std::vector<int>& inputs = nodes[reader].inputs;
    *std::find(inputs.begin(), inputs.end(), output) = branch;
  }
  return node;
}

/// True if the gradients of both inputs of `node` can have the same memory. This requires that no op overwrites the
/// gradient of one input before the producer of the other input has read it.
bool can_share_gradients(const Graph& graph, const Graph::Node& node) {
  const Graph::ValueInfo &a = graph.values()[node.inputs.at(0)], &b = graph.values()[node.inputs.at(1)];
  if (!a.wants_gradient || !b.wants_gradient) return true;
  if (a.producer == b.producer) return false;
  const int later = a.producer > b.producer ? node.inputs[0] : node.inputs[1];
  const Graph::Node& producer = graph.nodes()[graph.values()[later].producer];
  const auto keeps_output_gradient = producer.traits.keeps_output_gradient;
  return producer.outputs.front() == later && keeps_output_gradient && keeps_output_gradient(*producer.definition);
}

}  // namespace

void accumulate_input_gradients(Graph& graph, DeviceKind device) {
  std::vector<Graph::Node> nodes = graph.nodes();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    Graph::Node& node = nodes[i];
    if (node.traits.accumulating == nullptr) continue;
    const int value = node.inputs.front();
    const auto reads = [&](const Graph::Node& other) { return std::ranges::count(other.inputs, value) > 0; };
    const std::span before = std::span(nodes).first(i), after = std::span(nodes).subspan(i + 1);
    if (!graph.values()[value].wants_gradient || std::ranges::count(node.inputs, value) > 1) continue;
    if (std::ranges::any_of(before, reads) || std::ranges::none_of(after, reads)) continue;
    auto accumulating = node.traits.accumulating(*node.definition, device, graph.values()[value].type);
    if (!accumulating) continue;
    const int shared = graph.add_value_like({value}).index;
    node.definition = std::move(accumulating);
    node.outputs.push_back(shared);
    for (Graph::Node& other : after) std::ranges::replace(other.inputs, value, shared);
  }
  graph.replace_nodes(std::move(nodes));
}

void sum_gradients_in_producers(Graph& graph, const Graph::NewOp& gradient_fork) {
  std::vector<Graph::Node> nodes = graph.nodes(), with_forks;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const int output = nodes[i].outputs.front();
    const Graph::ValueInfo& value = graph.values()[output];
    const auto summing_gradients = nodes[i].traits.summing_gradients;
    const bool is_candidate = value.wants_gradient && value.readers.size() == 2 && nodes[i].outputs.size() == 1;
    OpTraits::Definition definition;
    if (is_candidate && summing_gradients != nullptr) definition = summing_gradients(*nodes[i].definition);
    if (definition == nullptr) {
      with_forks.push_back(nodes[i]);
      continue;
    }
    const int second = graph.add_value_like({output}).index;
    nodes[i].definition = std::move(definition);
    nodes[i].outputs.push_back(second);
    with_forks.push_back(nodes[i]);
    with_forks.push_back(fork_after(graph, nodes, gradient_fork, output));
    with_forks.back().inputs.push_back(second);
  }
  graph.replace_nodes(std::move(with_forks));
}

void insert_forks(Graph& graph, const Graph::NewOp& fork) {
  std::vector<Graph::Node> nodes = graph.nodes(), with_forks;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    with_forks.push_back(nodes[i]);
    for (const int output : nodes[i].outputs) {
      const Graph::ValueInfo& value = graph.values()[output];
      if (!value.wants_gradient || value.readers.size() < 2) continue;
      with_forks.push_back(fork_after(graph, nodes, fork, output));
    }
  }
  graph.replace_nodes(std::move(with_forks));
}

void share_gradients(Graph& graph) {
  std::vector<Graph::Node> nodes = graph.nodes();
  for (Graph::Node& node : nodes) {
    if (node.traits.sharing_gradients == nullptr || !can_share_gradients(graph, node)) continue;
    if (auto sharing = node.traits.sharing_gradients(*node.definition)) node.definition = std::move(sharing);
  }
  graph.replace_nodes(std::move(nodes));
}

void sum_parameter_gradients(Graph& graph, const Graph::NewOp& parameter_sum) {
  std::vector<Graph::Node> nodes = graph.nodes(), with_sums;
  std::vector<int> first_op(graph.parameters().size(), -1);
  // [parameter] The gradient values of the ops that use the parameter. The first of these ops has no gradient value.
  std::vector<std::vector<int>> gradients(graph.parameters().size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (std::size_t k = 0; k < nodes[i].parameters.size(); ++k) {
      const int parameter = nodes[i].parameters[k];
      if (first_op[parameter] < 0) {
        first_op[parameter] = static_cast<int>(i);
        continue;
      }
      gradients[parameter].push_back(graph.add_gradient_value(parameter).index);
      nodes[i].gradient_values.resize(nodes[i].parameters.size(), -1);
      nodes[i].gradient_values[k] = gradients[parameter].back();
    }
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const int parameter : nodes[i].parameters) {
      if (first_op[parameter] != static_cast<int>(i) || gradients[parameter].empty()) continue;
      with_sums.push_back({.name = graph.parameters()[parameter].name + "/sum",
                           .definition = parameter_sum.definition,
                           .inputs = {},
                           .outputs = gradients[parameter],
                           .parameters = {parameter},
                           .buffers = {},
                           .traits = parameter_sum.traits});
    }
    with_sums.push_back(std::move(nodes[i]));
  }
  graph.replace_nodes(std::move(with_sums));
}

void give_values_one_reader(Graph& graph, DeviceKind device, const GradientOps& ops) {
  const bool is_gpu = device == DeviceKind::cuda, saves_passes = !is_gpu || !is_switched_off("shared_gradients");
  if (saves_passes) accumulate_input_gradients(graph, device);
  if (saves_passes && is_gpu) sum_gradients_in_producers(graph, ops.gradient_fork);
  insert_forks(graph, ops.fork);
  if (saves_passes && is_gpu) share_gradients(graph);
  sum_parameter_gradients(graph, ops.parameter_sum);
}

}  // namespace carillon
