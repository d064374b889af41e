#include "src/train/diagnosis/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "src/step/tensor_io.h"

namespace carillon {
namespace {

ParameterMemory memory_with_gradients(const Graph& graph, Device& device) {
  return {.gradients = device.allocate(gradient_bytes(ParameterLayout(graph.parameters())))};
}

/// "op conv1 (conv2d)"
std::string text_of(const Graph::Node& node) { return fmt::format("op {} ({})", node.name, node.definition->type()); }

bool is_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

NotFinite in_variable(const NamedArray& array) {
  const auto count = std::ranges::count_if(array.values, [](float value) { return !std::isfinite(value); });
  return {fmt::format("variable {} before the step, in {} of {} elements", array.name, count, array.values.size()), {}};
}

/// Searches op after op until something is found.
struct FirstFound {
  std::optional<NotFinite> found;
  int ops = 0;

  template <typename Search>
  void search(const Search& search_op) {
    if (found) return;
    ++ops;
    found = search_op();
    if (found) found->after_ops = ops;
  }
};

}  // namespace

Replay::Replay(const Network& network, const Task& task, const BuildSettings& settings,
               const ParameterStore& parameters, const BufferStore& buffers, Device& device, TowerLink* towers)
    : device_(device),
      network_(build_network(network, task, settings)),
      input_stage_(make_input_stage(device, {.batch_size = static_cast<std::size_t>(settings.batch_size),
                                             .image_bytes = network.image.bytes(),
                                             .target_bytes = network_.graph.target_bytes()})),
      parameters_(network_.graph.parameters(), device, memory_with_gradients(network_.graph, device)),
      buffers_(network_.graph.buffers(), device),
      executable_(network_.graph, {device, parameters_, buffers_, input_stage_->inputs(), towers}, true,
                  {network_.loss}, Tiling::never) {
  copy_floats(device, parameters.values(), parameters_.values());
  copy_floats(device, buffers.values(), buffers_.values());
}

std::optional<NotFinite> Replay::forward(const Batch& batch) {
  const std::vector<NamedArray> variables = download(variables_of(parameters_), device_);
  FirstFound first;
  if (const NamedArray* array = find_not_finite(variables)) first.found = in_variable(*array);
  input_stage_->write(0,
                      {.batch = batch});  // even if a variable is not finite: ops of other ranks may wait for this rank
  input_stage_->upload(0, 1, device_.stream());
  executable_.forward(device_.stream(),
                      [&](int op) { first.search([&] { return search_outputs(network_.graph.nodes()[op]); }); });
  return first.found;
}

std::optional<NotFinite> Replay::backward() {
  FirstFound first;
  executable_.backward(
      device_.stream(), [](int /*parameter*/) {},
      [&](int op) { first.search([&] { return search_gradients(network_.graph.nodes()[op]); }); });
  return first.found;
}

std::optional<NotFinite> Replay::search_outputs(const Graph::Node& node) const {
  for (const int value : node.outputs) {
    if (auto found = search(executable_.tensor({value}), "output of " + text_of(node))) return found;
  }
  return std::nullopt;
}

std::optional<NotFinite> Replay::search_gradients(const Graph::Node& node) const {
  const std::string gradient = fmt::format("gradient of {} by its", text_of(node));
  for (const int value : node.inputs) {
    const std::string& name = network_.graph.values()[value].name;
    if (auto found = search(executable_.gradient({value}), fmt::format("{} input {}", gradient, name))) return found;
  }
  for (const int parameter : node.parameters) {
    if (is_finite(download_floats(device_, parameters_.gradient(parameter)))) continue;
    return NotFinite{fmt::format("{} variable {}", gradient, parameters_.specs()[parameter].name), {}};
  }
  return std::nullopt;
}

/// The samples with values that are not finite, in the activations of a batch or in their gradients.
std::optional<NotFinite> Replay::search(const Tensor& tensor, std::string what) const {
  if (!tensor) return std::nullopt;
  const std::vector<float> values = download_floats(device_, tensor);
  if (is_finite(values)) return std::nullopt;
  NotFinite found{std::move(what), {}};
  if (tensor.shape.rank() == 0) return found;
  const std::size_t count = static_cast<std::size_t>(tensor.shape.elements_per_sample());
  for (std::size_t sample = 0; sample * count < values.size(); ++sample) {
    if (!is_finite(std::span(values).subspan(sample * count, count))) found.samples.push_back(sample);
  }
  return found;
}

}  // namespace carillon
