#include "src/graph/executable.h"

#include <algorithm>

#include "carillon/core/error.h"
#include "src/graph/batch_tiling.h"

namespace carillon {
namespace {

/// Returns the part of the flat gradient array that holds the section's parameters. These parameters are contiguous.
std::span<float> gradients_of(const TiledSection& section, const Graph& graph, const ParameterStore& parameters) {
  const ParameterLayout& layout = parameters.layout();
  std::size_t begin = layout.total(), end = 0;
  for (int op = section.first; op < section.last; ++op) {
    for (const int parameter : graph.nodes()[op].parameters) {
      begin = std::min(begin, layout.offset(parameter));
      end = std::max(end, layout.offset(parameter) + layout.count(parameter));
    }
  }
  return begin < end ? parameters.gradients_and_sums().subspan(begin, end - begin) : std::span<float>{};
}

/// If the only op that reads `value` also computes the gradient of a parameter of the op that produces `value`, returns
/// the index of this parameter in the producer's list. Otherwise returns nullopt.
std::optional<std::size_t> parameter_summed_by_reader(const Graph& graph, const Graph::ValueInfo& value,
                                                      DeviceKind kind) {
  if (value.producer < 0 || value.readers.size() != 1 || !value.wants_gradient) return std::nullopt;
  const Graph::Node &producer = graph.nodes()[value.producer], &reader = graph.nodes()[value.readers[0]];
  // The reader can only sum the gradient of its input 0 (OpTensors::input_gradient_sums), and the producer adds its
  // biases to its output 0.
  // If an op reads the value only as the gradient of a shared parameter, this op may have no inputs.
  if (reader.inputs.empty() || &graph.values()[reader.inputs[0]] != &value) return std::nullopt;
  if (&graph.values()[producer.outputs[0]] != &value) return std::nullopt;
  const auto column_summed_parameter = producer.traits.column_summed_parameter;
  const auto sums_input_gradient = reader.traits.sums_input_gradient;
  if (column_summed_parameter == nullptr || sums_input_gradient == nullptr) return std::nullopt;
  const std::optional<int> summed = column_summed_parameter(*producer.definition);
  if (!summed || !sums_input_gradient(kind, value.shape)) return std::nullopt;
  // The reader's backward runs before the producer's backward, but the memory of a gradient value is reserved only from
  // the producer's backward on.
  if (!producer.gradient_values.empty() && producer.gradient_values.at(static_cast<std::size_t>(*summed)) >= 0) {
    return std::nullopt;
  }
  return static_cast<std::size_t>(*summed);
}

}  // namespace

Executable::Executable(const Graph& graph, const ExecutableContext& context, bool training, std::vector<Value> results,
                       Tiling tiling)
    : tiling_(tiling) {
  const int workers = tiling == Tiling::never ? 0 : static_cast<int>(context.device.workers().size());
  const std::vector<TiledSection> sections =
      plan_tiling(graph, workers, context.device.min_samples(graph.arithmetic()));
  place_tensors(graph, context.device, tensor_lifetimes(graph, sections, training, results));
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (graph.values()[i].is_input) values_[i].tensor.data = context.inputs.targets;
  }
  for (const TiledSection& section : sections) {
    const std::span<float> gradients = training ? gradients_of(section, graph, context.parameters) : std::span<float>{};
    sections_.push_back(
        std::make_unique<TiledOps>(section, context.device, gradients, [&](int op, const BatchTile& tile) {
          const OpContext of_op{.device = tile.device,
                                .arithmetic = graph.arithmetic(),
                                .training = training,
                                .step = &context.inputs,
                                .towers = context.towers};
          const Graph::Node& node = graph.nodes()[op];
          OpTensors tensors = tensors_of(node, context, training, section, tile);
          if (training) share_work(graph, node, context, tensors);
          return node.definition->instantiate(of_op, tensors);
        }));
    Backward& backward = backward_.emplace_back();
    for (int op = section.last; op-- > section.first;) {
      const Graph::Node& node = graph.nodes()[op];
      backward.runs.insert(backward.runs.begin(), training && std::ranges::any_of(node.outputs, [&](int value) {
                                                    return graph.values()[value].wants_gradient;
                                                  }));
    }
  }
  order_parameters(graph, sections, context.parameters.layout());
  for (std::vector<Place>* places : {&values_, &gradients_}) {
    for (Place& place : *places) {
      if (place.per_worker) place.tensor.data = nullptr;  // no op after the section may read the tensor
    }
  }
}

Executable::~Executable() = default;

void Executable::order_parameters(const Graph& graph, const std::vector<TiledSection>& sections,
                                  const ParameterLayout& layout) {
  const std::size_t last = sections.size() - 1;
  std::vector<std::size_t> section_of(graph.parameters().size(), last);
  for (std::size_t i = sections.size(); i-- > 0;) {
    for (int op = sections[i].first; op < sections[i].last; ++op) {
      for (const int parameter : graph.nodes()[op].parameters) section_of[parameter] = i;
    }
  }
  std::size_t section = last;
  for (const int parameter : layout.order()) {
    // No parameter is complete before the parameters that precede it in the layout.
    section = std::min(section, section_of[parameter]);
    backward_[section].parameters.push_back(parameter);
  }
}

Tensor Executable::parameter_gradient(const Graph::Node& node, std::size_t position,
                                      const ParameterStore& parameters) const {
  const int value = node.gradient_values.empty() ? -1 : node.gradient_values.at(position);
  return value >= 0 ? gradients_[value].tensor : parameters.gradient(node.parameters.at(position));
}

void Executable::place_tensors(const Graph& graph, Device& device, const std::vector<Lifetime>& lifetimes) {
  const MemoryPlan plan = plan_memory(lifetimes);
  memory_ = device.allocate(plan.peak_bytes);
  const std::size_t value_count = graph.values().size();
  for (std::size_t i = 0; i < lifetimes.size(); ++i) {
    const Graph::ValueInfo& value = graph.values()[i % value_count];
    const bool used = lifetimes[i].first <= lifetimes[i].last;
    Tensor tensor{used ? static_cast<std::byte*>(memory_.data()) + plan.offsets[i] : nullptr, value.shape, value.type};
    (i < value_count ? values_ : gradients_).push_back({std::move(tensor), lifetimes[i].per_worker});
  }
}

OpTensors Executable::tensors_of(const Graph::Node& node, const ExecutableContext& context, bool training,
                                 const TiledSection& section, const BatchTile& tile) const {
  const auto part = [&](const Place& of) { return tile_of(of.tensor, of.per_worker, section, tile); };
  OpTensors tensors;
  for (const int value : node.inputs) {
    tensors.inputs.push_back(part(values_[value]));
    if (training) tensors.input_gradients.push_back(part(gradients_[value]));
  }
  for (const int value : node.outputs) {
    tensors.outputs.push_back(part(values_[value]));
    if (training) tensors.output_gradients.push_back(part(gradients_[value]));
  }
  for (std::size_t i = 0; i < node.parameters.size(); ++i) {
    const int parameter = node.parameters[i];
    tensors.parameters.push_back(context.parameters.value(parameter));
    if ((training || context.reads_compute_copies) && !context.parameters.compute_copies().empty()) {
      tensors.parameter_compute_copies.push_back(context.parameters.compute_copies().at(parameter).tensor);
    }
    if (!training) continue;
    Tensor gradient = parameter_gradient(node, i, context.parameters);
    if (tile.own_gradients != nullptr) {
      gradient.data = tile.own_gradients + (gradient.floats().data() - tile.gradients);
    }
    tensors.parameter_gradients.push_back(std::move(gradient));
  }
  for (const int buffer : node.buffers) tensors.buffers.push_back(context.buffers.tensor(buffer));
  return tensors;
}

void Executable::share_work(const Graph& graph, const Graph::Node& node, const ExecutableContext& context,
                            OpTensors& tensors) {
  const DeviceKind kind = context.device.kind();
  if (!node.inputs.empty()) {
    const Graph::ValueInfo& input = graph.values()[node.inputs[0]];
    if (const auto summed = parameter_summed_by_reader(graph, input, kind)) {
      tensors.input_gradient_sums = parameter_gradient(graph.nodes()[input.producer], *summed, context.parameters);
    }
  }
  if (const auto summed = parameter_summed_by_reader(graph, graph.values()[node.outputs[0]], kind)) {
    tensors.parameter_gradients.at(*summed).data = nullptr;
  }
  if (context.loss.index >= 0 && node.outputs[0] == context.loss.index && node.traits.writes_step_sums != nullptr &&
      node.traits.writes_step_sums(kind)) {
    tensors.step_sums = context.parameters.step_sums();
    writes_step_sums_ = true;
  }
}

void Executable::check_observable(const OpDone& op_done) const {
  check(!op_done || tiling_ == Tiling::never, "observing ops requires Tiling::never");
}

void Executable::forward(Stream& stream, const OpDone& op_done) {
  check_observable(op_done);
  for (std::size_t i = 0; i < sections_.size(); ++i) {
    sections_[i]->forward(stream);
    if (op_done) op_done(static_cast<int>(i));
  }
}

void Executable::backward(Stream& stream, const std::function<void(int)>& parameter_done, const OpDone& op_done) {
  check_observable(op_done);
  for (std::size_t i = sections_.size(); i-- > 0;) {
    const bool runs = std::ranges::count(backward_[i].runs, true) > 0;
    if (runs) sections_[i]->backward(stream, backward_[i].runs);
    for (const int parameter : backward_[i].parameters) parameter_done(parameter);
    if (runs && op_done) op_done(static_cast<int>(i));
  }
}

}  // namespace carillon
