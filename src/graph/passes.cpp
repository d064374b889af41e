#include "src/graph/passes.h"

#include <algorithm>

namespace carillon {
namespace {

bool is_result(int value, std::span<const Value> results) {
  return std::find(results.begin(), results.end(), Value{value}) != results.end();
}

/// Returns the index of the only op that reads a value. Returns -1 if the value has no reader or several readers, or is
/// a result.
int only_reader(const Graph& graph, int value, std::span<const Value> results) {
  const std::vector<int>& readers = graph.values()[value].readers;
  return readers.size() == 1 && !is_result(value, results) ? readers.front() : -1;
}

OpTraits::Definition with_relu_before(const Graph::Node& node) {
  return node.traits.with_relu_before ? node.traits.with_relu_before(*node.definition) : nullptr;
}

OpTraits::Definition with_activation(const Graph::Node& node, ActivationKind activation) {
  return node.traits.with_activation ? node.traits.with_activation(*node.definition, activation) : nullptr;
}

/// True if the op has only one output. Passes may replace the outputs of such ops only.
bool has_one_output(const Graph::Node& node) { return node.outputs.size() == 1; }

bool have_parameters(std::span<const Graph::Node> nodes) {
  return std::ranges::any_of(nodes, [](const Graph::Node& node) { return !node.parameters.empty(); });
}

/// If the op that produces one operand of the addition `nodes[sum]` can add the other operand to its own output, this
/// op replaces the addition in `nodes`. `nodes`: the nodes of the graph, some of them changed by earlier fusions. A
/// node that was fused into another node has no definition.
void fuse_addition(const Graph& graph, DeviceKind device, std::vector<Graph::Node>& nodes, std::size_t sum,
                   std::span<const Value> results) {
  for (const std::size_t operand : {0u, 1u}) {
    const int value = nodes[sum].inputs[operand], addend = nodes[sum].inputs[1 - operand];
    if (graph.values()[value].is_input || only_reader(graph, value, results) < 0) continue;
    const std::size_t producer = static_cast<std::size_t>(graph.values()[value].producer);
    Graph::Node& before = nodes[producer];
    if (before.definition == nullptr || before.traits.with_addend == nullptr || !has_one_output(before)) continue;
    if (have_parameters(std::span(nodes).subspan(producer + 1, sum - producer - 1))) continue;
    auto with_addend = before.traits.with_addend(*before.definition, device);
    if (!with_addend) continue;
    Graph::Node fused = before;
    fused.definition = std::move(with_addend);
    fused.inputs.push_back(addend);
    fused.outputs = nodes[sum].outputs;
    before = {};
    nodes[sum] = std::move(fused);
    return;
  }
}

/// Fuses the activation `nodes[fused]` into a neighbouring op. Returns false if no neighbour can apply it. `nodes`: as
/// in fuse_addition.
bool fuse(const Graph& graph, std::vector<Graph::Node>& nodes, std::size_t fused, std::span<const Value> results) {
  const ActivationKind activation = nodes[fused].traits.activation;
  const int before = nodes[fused].inputs.front(), after = nodes[fused].outputs.front();
  if (graph.values()[before].is_input) return false;
  if (const int reader = only_reader(graph, after, results); activation == ActivationKind::relu && reader >= 0) {
    if (auto with_relu = with_relu_before(nodes[reader])) {
      nodes[reader].definition = std::move(with_relu);
      std::replace(nodes[reader].inputs.begin(), nodes[reader].inputs.end(), after, before);
      return true;
    }
  }
  Graph::Node& producer = nodes[graph.values()[before].producer];
  if (only_reader(graph, before, results) < 0 || producer.definition == nullptr) return false;
  if (!has_one_output(producer)) return false;
  auto activated = with_activation(producer, activation);
  if (!activated) return false;
  producer.definition = std::move(activated);
  producer.outputs = {after};
  return true;
}

/// Returns `value` and the values from which it is computed, back to the first op. Returns an empty vector if one of
/// their ops cannot pad channels, if one of the values has another reader, or if one is an input of the graph.
std::vector<int> values_to_pad(const Graph& graph, int value) {
  std::vector<int> values;
  while (true) {
    const Graph::ValueInfo& info = graph.values()[value];
    if (info.is_input) return {};
    const Graph::Node& producer = graph.nodes()[info.producer];
    if (info.readers.size() != 1 || !producer.traits.pads_channels) return {};
    values.push_back(value);
    if (producer.inputs.empty()) return values;
    value = producer.inputs.front();
  }
}

}  // namespace

void remove_unread(Graph& graph, std::span<const Value> results) {
  std::vector<Graph::Node> nodes = graph.nodes();
  std::vector<bool> is_read(graph.values().size(), false);
  for (const Value result : results) is_read[static_cast<std::size_t>(result.index)] = true;
  for (std::size_t i = nodes.size(); i-- > 0;) {
    Graph::Node& node = nodes[i];
    const bool keeps_values = !node.parameters.empty() || !node.buffers.empty();
    if (keeps_values || std::ranges::any_of(node.outputs, [&](int output) { return is_read[output]; })) {
      for (const int input : node.inputs) is_read[input] = true;
    } else {
      node.definition = nullptr;
    }
  }
  std::erase_if(nodes, [](const Graph::Node& node) { return node.definition == nullptr; });
  graph.replace_nodes(std::move(nodes));
}

void fuse_additions(Graph& graph, DeviceKind device, std::span<const Value> results) {
  std::vector<Graph::Node> nodes = graph.nodes();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].traits.is_addition) fuse_addition(graph, device, nodes, i, results);
  }
  std::erase_if(nodes, [](const Graph::Node& node) { return node.definition == nullptr; });
  graph.replace_nodes(std::move(nodes));
}

void fuse_activations(Graph& graph, std::span<const Value> results) {
  std::vector<Graph::Node> nodes = graph.nodes();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].traits.activation == ActivationKind::none) continue;
    if (fuse(graph, nodes, i, results)) nodes[i].definition = nullptr;
  }
  std::erase_if(nodes, [](const Graph::Node& node) { return node.definition == nullptr; });
  graph.replace_nodes(std::move(nodes));
}

void defer_biases(Graph& graph, std::span<const Value> results) {
  std::vector<Graph::Node> nodes = graph.nodes();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    Graph::Node& node = nodes[i];
    const int reader = only_reader(graph, node.outputs.front(), results);
    if (reader < 0 || have_parameters(std::span(nodes).subspan(i + 1, static_cast<std::size_t>(reader) - i))) continue;
    Graph::Node& next = nodes[reader];
    if (!node.traits.without_biases || !next.traits.with_biases_before) continue;
    auto without = node.traits.without_biases(*node.definition);
    auto with = next.traits.with_biases_before(*next.definition);
    if (!without || !with) continue;
    node.definition = std::move(without);
    next.definition = std::move(with);
    next.parameters.push_back(node.parameters.back());
    node.parameters.pop_back();
  }
  graph.replace_nodes(std::move(nodes));
}

void pad_channels(Graph& graph) {
  for (const Graph::Node& node : graph.nodes()) {
    if (node.inputs.empty() || node.traits.preferred_channels == nullptr) continue;
    const Graph::ValueInfo& x = graph.values()[node.inputs.front()];
    const std::int64_t channels = node.traits.preferred_channels(*node.definition, x.shape, x.type);
    if (x.wants_gradient || channels == x.shape.extents().back()) continue;
    const std::vector<int> padded = values_to_pad(graph, node.inputs.front());
    for (const int value : padded) graph.set_channels({value}, channels);
  }
}

void fit_to_gpu(Graph& graph, std::span<const Value> results) {
  defer_biases(graph, results);
  pad_channels(graph);
}

int synchronize_batches(Graph& graph) {
  std::vector<Graph::Node> nodes = graph.nodes();
  int count = 0;
  for (Graph::Node& node : nodes) {
    if (node.traits.synchronized == nullptr) continue;
    auto synchronized = node.traits.synchronized(*node.definition);
    if (!synchronized) continue;
    node.definition = std::move(synchronized);
    ++count;
  }
  graph.replace_nodes(std::move(nodes));
  return count;
}

int freeze_statistics(Graph& graph, const std::function<bool(const Graph::Node&)>& is_wanted) {
  std::vector<Graph::Node> nodes = graph.nodes();
  int count = 0;
  for (Graph::Node& node : nodes) {
    if (node.traits.frozen == nullptr || !is_wanted(node)) continue;
    auto frozen = node.traits.frozen(*node.definition);
    if (!frozen) continue;
    node.definition = std::move(frozen);
    for (const int buffer : node.buffers) graph.keep_buffer(buffer);
    ++count;
  }
  graph.replace_nodes(std::move(nodes));
  return count;
}

void interpose(Graph& graph, Value x, Value y) {
  std::vector<Graph::Node> nodes = graph.nodes();
  const int after_x = graph.values()[x.index].producer + 1, op = graph.values()[y.index].producer;
  for (const int reader : graph.values()[x.index].readers) {
    if (reader != op) std::replace(nodes[reader].inputs.begin(), nodes[reader].inputs.end(), x.index, y.index);
  }
  std::rotate(nodes.begin() + after_x, nodes.begin() + op, nodes.begin() + op + 1);
  graph.replace_nodes(std::move(nodes));
}

}  // namespace carillon
