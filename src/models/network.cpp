#include "carillon/models/network.h"

#include <algorithm>

#include "carillon/core/error.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/gradient_ops.h"
#include "kernels/image_input/image_input.h"
#include "src/graph/passes.h"

namespace carillon {
namespace {

std::vector<BuiltNetwork::Layer> layers_of(const Graph& graph) {
  std::vector<BuiltNetwork::Layer> layers;
  for (const Graph::Node& node : graph.nodes()) {
    if (node.parameters.empty()) continue;
    int output = node.outputs.front();
    const std::vector<int>& readers = graph.values()[output].readers;
    if (readers.size() == 1 && graph.nodes()[readers.front()].traits.activation == ActivationKind::relu) {
      output = graph.nodes()[readers.front()].outputs.front();
    }
    layers.push_back({node.name, Value{output}});
  }
  return layers;
}

/// Returns the output of the op that reads the records. Errors: data (no op or several ops read the records).
Value images_of(const Graph& graph, const Network& network) {
  const auto reads_records = [](const Graph::Node& node) { return node.type != nullptr && node.type->reads_records; };
  const auto found = std::ranges::find_if(graph.nodes(), reads_records);
  if (found == graph.nodes().end()) {
    fail(ExitCode::data, "no op of the network {} reads its input '{}'", network.name, network.input);
  }
  if (std::ranges::count_if(graph.nodes(), reads_records) > 1) {
    fail(ExitCode::data, "several ops of the network {} read its input '{}'", network.name, network.input);
  }
  return {found->outputs.front()};
}

/// Checks that each op has an output that another op reads or that is a result. Otherwise the op would have no gradient
/// from which its backward pass could start.
void check_all_is_read(const Graph& graph, const std::vector<Value>& results) {
  const auto is_read = [&](int value) {
    const bool is_result = std::ranges::find(results, Value{value}) != results.end();
    return !graph.values()[value].readers.empty() || is_result;
  };
  for (const Graph::Node& node : graph.nodes()) {
    if (std::ranges::any_of(node.outputs, is_read)) continue;
    fail(ExitCode::failed, "no op of the network reads the value '{}'", graph.values()[node.outputs.front()].name);
  }
}

MixingParams mixing_of(const Network& network, const Shape& images) {
  MixingParams params{.mixup = network.mixing.mixup, .cutmix = network.mixing.cutmix, .seed = network.mixing.seed};
  if (!params.mixes()) return params;
  check(images.rank() == 4, "mixup and cutmix need an image-shaped network input");
  params.height = static_cast<std::int32_t>(images[1]);
  params.width = static_cast<std::int32_t>(images[2]);
  return params;
}

void warp_input(Graph& graph, Value images, const Network& network) {
  const WarpSettings& warp = network.warp;
  const WarpParams params{.rotation = warp.rotation, .zoom = warp.zoom, .shift = warp.shift, .seed = warp.seed};
  if (params.warps()) warp_images(graph, images, params);
}

/// Returns the mixed images.
Value mix_input(Graph& graph, Value images, const MixingParams& mixing) {
  const Value mixed = mix_images(graph, "mixing", images, mixing);
  interpose(graph, images, mixed);
  return mixed;
}

Value add_loss(Graph& graph, Value output, const Task& task, const MixingParams& mixing) {
  check(graph.shape(output).elements_per_sample() == task.outputs,
        "the network's number of outputs differs from the task's");
  const Value target = graph.add_target(task.target);
  const Value loss = task.loss(graph, {.output = output, .target = target, .mixing = mixing});
  check(graph.shape(loss).rank() == 0, "a loss must be a scalar");
  return loss;
}

/// With Network::freeze_batch_norm, freezes all batch norms. Otherwise freezes a batch norm only if all its variables
/// match Network::frozen_variables.
void freeze_batch_norms(Graph& graph, const Network& network) {
  const auto is_frozen = [&](int parameter) {
    return matches_any(network.frozen_variables, graph.parameters()[parameter].name);
  };
  const int count = freeze_statistics(graph, [&](const Graph::Node& node) {
    return network.freeze_batch_norm || std::ranges::all_of(node.parameters, is_frozen);
  });
  if (network.freeze_batch_norm && count == 0) {
    fail(ExitCode::usage, "--freeze-batch-norm: the network {} has no batch norm", network.name);
  }
}

void exclude_from_l2(Graph& graph, const std::vector<std::string>& patterns) {
  for (std::size_t i = 0; i < graph.parameters().size(); ++i) {
    if (matches_any(patterns, graph.parameters()[i].name)) graph.remove_l2(static_cast<int>(i));
  }
}

/// Implements build_network. If `task` is null, the graph has no target and no loss.
BuiltNetwork build(const Network& network, const Task* task, const BuildSettings& settings) {
  const GraphContext context{.image = network.image,
                             .training = settings.purpose != Purpose::evaluation,
                             .distort = network.distort,
                             .record_count = network.record_count,
                             .seed = network.seed};
  BuiltNetwork built{.graph = Graph(settings.batch_size, settings.arithmetic, context),
                     .input = {},
                     .output = {},
                     .loss = {},
                     .layers = {}};
  Graph& graph = built.graph;
  built.output = add_network(graph, network);
  built.input = images_of(graph, network);
  if (settings.purpose != Purpose::evaluation) warp_input(graph, built.input, network);
  const MixingParams mixing = mixing_of(network, graph.shape(built.input));
  if (mixing.mixes() && settings.purpose != Purpose::evaluation) built.input = mix_input(graph, built.input, mixing);
  std::vector<Value> results{built.input, built.output};
  if (task != nullptr && settings.purpose == Purpose::training) {
    built.loss = add_loss(graph, built.output, *task, mixing);
    results.push_back(built.loss);
  }
  if (settings.purpose == Purpose::summary) built.layers = layers_of(graph);
  for (const BuiltNetwork::Layer& layer : built.layers) results.push_back(layer.output);
  check_all_is_read(graph, results);
  fuse_additions(graph, settings.device, results);
  fuse_activations(graph, results);
  exclude_from_l2(graph, network.l2_exclude);
  freeze_batch_norms(graph, network);
  if (network.sync_batch_norm && synchronize_batches(graph) == 0) {
    fail(ExitCode::usage, "--sync-batch-norm: the network {} has no batch norm", network.name);
  }
  if (settings.device == DeviceKind::cuda && settings.purpose != Purpose::summary) fit_to_gpu(graph, results);
  if (settings.purpose == Purpose::training) {
    give_values_one_reader(graph, settings.device, gradient_ops());
  } else {
    insert_forks(graph, fork_op());
  }
  return built;
}

}  // namespace

Network make_network(const std::string& name, const NetworkSettings& settings,
                     const std::function<Value(Graph& graph)>& add_layers) {
  Network network{describe_network(name, settings.image, add_layers)};
  network.distort = settings.distort;
  network.record_count = settings.record_count;
  network.seed = settings.seed;
  return network;
}

BuiltNetwork build_network(const Network& network, const Task& task, const BuildSettings& settings) {
  return build(network, &task, settings);
}

BuiltNetwork build_network(const Network& network, const BuildSettings& settings) {
  return build(network, nullptr, settings);
}

std::int64_t parameter_count(const Graph& graph) {
  std::int64_t count = 0;
  for (const ParameterSpec& spec : graph.parameters()) count += spec.shape.element_count();
  return count;
}

std::int64_t multiply_adds(const Graph& graph, const Graph::Node& node) {
  std::int64_t count = 0;
  if (graph.values()[node.outputs.front()].gradient_of >= 0) return 0;
  const Shape& output = graph.values()[node.outputs.front()].shape;
  for (const int parameter : node.parameters) {
    const Shape& weights = graph.parameters()[parameter].shape;
    if (weights.rank() < 2 || graph.parameters()[parameter].is_embedding) continue;
    // Each weight is used once for each output position.
    count += output.elements_per_sample() / weights.extents().back() * weights.element_count();
  }
  return count;
}

std::int64_t multiply_adds(const Graph& graph) {
  std::int64_t count = 0;
  for (const Graph::Node& node : graph.nodes()) count += multiply_adds(graph, node);
  return count;
}

}  // namespace carillon
