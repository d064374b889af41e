#include "src/graph/passes.h"

#include <algorithm>
#include <string_view>

namespace carillon {
namespace {

bool is_result(int value, std::span<const Value> results) {
  return std::find(results.begin(), results.end(), Value{value}) != results.end();
}

/// The index of the one op that reads a value and nobody else does, or -1.
int only_reader(const Graph& graph, int value, std::span<const Value> results) {
  const std::vector<int>& readers = graph.values()[value].readers;
  return readers.size() == 1 && !is_result(value, results) ? readers.front() : -1;
}

/// Whether some neighbour took `nodes[taken]` over; `nodes` are the graph's, some of them changed or empty already.
bool take_over(const Graph& graph, std::vector<Graph::Node>& nodes, std::size_t taken, std::span<const Value> results) {
  const std::string_view type = nodes[taken].definition->type();
  const int before = nodes[taken].inputs.front(), after = nodes[taken].outputs.front();
  if (graph.values()[before].is_input) return false;
  if (const int reader = only_reader(graph, after, results); type == "relu" && reader >= 0) {
    if (auto fused = nodes[reader].definition->with_relu_before()) {
      nodes[reader].definition = std::move(fused);
      std::replace(nodes[reader].inputs.begin(), nodes[reader].inputs.end(), after, before);
      return true;
    }
  }
  Graph::Node& producer = nodes[graph.values()[before].producer];
  if (only_reader(graph, before, results) < 0 || producer.definition == nullptr) return false;
  auto fused = producer.definition->with_activation_behind(type);
  if (!fused) return false;
  producer.definition = std::move(fused);
  producer.outputs = {after};
  return true;
}

bool have_parameters(std::span<const Graph::Node> nodes) {
  return std::ranges::any_of(nodes, [](const Graph::Node& node) { return !node.parameters.empty(); });
}

/// `value` and those that it is made of, back to the first op; none where some op does not pad.
std::vector<int> values_to_pad(const Graph& graph, int value) {
  std::vector<int> values;
  while (true) {
    const Graph::ValueInfo& info = graph.values()[value];
    if (info.is_input) return {};
    const Graph::Node& producer = graph.nodes()[info.producer];
    if (info.readers.size() != 1 || !producer.definition->pads_channels()) return {};
    values.push_back(value);
    if (producer.inputs.empty()) return values;
    value = producer.inputs.front();
  }
}

}  // namespace

void fuse_activations(Graph& graph, std::span<const Value> results) {
  std::vector<Graph::Node> nodes = graph.nodes();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].inputs.size() != 1 || !nodes[i].parameters.empty()) continue;  // no activation
    if (take_over(graph, nodes, i, results)) nodes[i].definition = nullptr;
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
    auto without = node.definition->without_biases();
    auto with = nodes[reader].definition->with_biases_before();
    if (!without || !with) continue;
    node.definition = std::move(without);
    nodes[reader].definition = std::move(with);
    nodes[reader].parameters.push_back(node.parameters.back());
    node.parameters.pop_back();
  }
  graph.replace_nodes(std::move(nodes));
}

void pad_channels(Graph& graph) {
  for (const Graph::Node& node : graph.nodes()) {
    if (node.inputs.empty()) continue;
    const Graph::ValueInfo& x = graph.values()[node.inputs.front()];
    const std::int64_t channels = node.definition->preferred_channels(x.shape, x.type);
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
    auto synchronized = node.definition->over_all_towers();
    if (!synchronized) continue;
    node.definition = std::move(synchronized);
    ++count;
  }
  graph.replace_nodes(std::move(nodes));
  return count;
}

void interpose(Graph& graph, Value x, Value y) {
  std::vector<Graph::Node> nodes = graph.nodes();
  const int behind = graph.values()[x.index].producer + 1, op = graph.values()[y.index].producer;
  for (const int reader : graph.values()[x.index].readers) {
    if (reader != op) std::replace(nodes[reader].inputs.begin(), nodes[reader].inputs.end(), x.index, y.index);
  }
  std::rotate(nodes.begin() + behind, nodes.begin() + op, nodes.begin() + op + 1);
  graph.replace_nodes(std::move(nodes));
}

void insert_forks(Graph& graph, const MakeFork& make_fork) {
  std::vector<Graph::Node> nodes = graph.nodes(), with_forks;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    with_forks.push_back(nodes[i]);
    for (const int output : nodes[i].outputs) {
      const Graph::ValueInfo value = graph.values()[output];
      if (!value.wants_gradient || value.readers.size() < 2) continue;
      Graph::Node fork{.name = value.name + "/fork",
                       .definition = make_fork(static_cast<int>(value.readers.size())),
                       .inputs = {output},
                       .outputs = {},
                       .parameters = {},
                       .buffers = {}};
      for (const int reader : value.readers) {
        const int branch = graph.add_value_like({output}).index;
        fork.outputs.push_back(branch);
        std::vector<int>& inputs = nodes[reader].inputs;
        *std::find(inputs.begin(), inputs.end(), output) = branch;
      }
      with_forks.push_back(std::move(fork));
    }
  }
  graph.replace_nodes(std::move(with_forks));
}

}  // namespace carillon
