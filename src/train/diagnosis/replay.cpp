#include "src/train/diagnosis/replay.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "src/step/tensor_io.h"
#include "src/train/control/agreement.h"

namespace carillon {
namespace {

ParameterMemory memory_with_gradients(const Graph& graph, Device& device) {
  return {.gradients = device.allocate(gradient_bytes(ParameterLayout(graph.parameters())))};
}

/// Returns, for example, "op conv1 (conv2d)".
std::string text_of(const Graph::Node& node) { return fmt::format("op {} ({})", node.name, node.definition->type()); }

bool is_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

NotFinite in_variable(const NamedArray& array) {
  const auto count = std::ranges::count_if(array.values, [](float value) { return !std::isfinite(value); });
  return {fmt::format("variable {} before the step, in {} of {} elements", array.name, count, array.values.size()), {}};
}

/// Counts the ops that were searched, and stores the first value that is not finite.
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
  // Runs the pass even if a variable is not finite, because ops of other ranks may wait for this rank.
  input_stage_->write(0, {.batch = batch});
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
  for (std::size_t i = 0; i < node.parameters.size(); ++i) {
    const Tensor tensor = executable_.parameter_gradient(node, i, parameters_);
    if (!tensor || is_finite(download_floats(device_, tensor))) continue;
    return NotFinite{fmt::format("{} variable {}", gradient, parameters_.specs()[node.parameters[i]].name), {}};
  }
  return std::nullopt;
}

/// Returns the samples with values that are not finite. The values are the activations of a batch, or their gradients.
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

namespace {

/// Returns, for example, "in 12 of the batch's 100 samples: 0 (train-00000: record 17, <target>), 4 (...), 7 (...),
/// ...".
std::string text_of(const std::vector<std::size_t>& samples, const DivergedStep& step) {
  const Batch& batch = step.batch;
  constexpr std::size_t max_named = 3;
  std::vector<std::string> texts;
  for (const std::size_t sample : std::span(samples).first(std::min(samples.size(), max_named))) {
    texts.push_back(fmt::format("{} ({}, {})", sample, step.dataset.name_of(batch.records[sample]),
                                step.tower.task().describe_target(batch.targets_of(sample, 1))));
  }
  if (samples.size() > max_named) texts.emplace_back("...");
  return fmt::format("in {} of the batch's {} samples: {}", samples.size(), batch.size(), fmt::join(texts, ", "));
}

/// Returns the text that reports the result `found` of a replay, or an empty text if all values are finite.
std::string text_of(const std::optional<NotFinite>& found, const DivergedStep& step) {
  if (!found) return {};
  const std::string text = fmt::format("a replay of the step finds NaN or infinity first in the {}", found->what);
  if (found->samples.empty()) return text;
  return fmt::format("{}, {}", text, text_of(found->samples, step));
}

/// Calls `find` for each micro-batch. Returns the earliest finding of the pass, with the affected samples of all
/// micro-batches.
template <typename Find>
std::optional<NotFinite> find_in_parts(const DivergedStep& step, const Find& find) {
  const std::size_t samples = static_cast<std::size_t>(step.settings.batch_size);
  std::optional<NotFinite> first;
  for (std::size_t begin = 0; begin < step.batch.size(); begin += samples) {
    std::optional<NotFinite> found = find(step.batch.part(begin, samples));
    if (!found || (first && found->after_ops > first->after_ops)) continue;
    for (std::size_t& sample : found->samples) sample += begin;
    const bool is_same = first && found->what == first->what;
    if (is_same) found->samples.insert(found->samples.begin(), first->samples.begin(), first->samples.end());
    first = std::move(found);
  }
  return first;
}

/// Returns, for example, "mean-squared-error".
std::string in_words(std::string name) {
  std::ranges::replace(name, '_', '-');
  return name;
}

/// True if this rank has a finding and no other rank has an earlier finding. Collective.
bool is_earliest(const std::optional<NotFinite>& found, const Mpi& mpi) {
  const std::vector<std::string> all = mpi.all_gather(found ? std::to_string(found->after_ops) : "");
  const auto is_earlier = [&](const std::string& ops) { return !ops.empty() && std::stoi(ops) < found->after_ops; };
  return found && std::ranges::none_of(all, is_earlier);
}

}  // namespace

std::string nonfinite_line(std::int64_t step, double loss) {
  return fmt::format("Model diverged with loss = {} at step {}", std::isnan(loss) ? "NaN" : "Inf", step);
}

void fail_with_cause(const std::string& line, const DivergedStep& step, const Mpi& mpi) {
  // The replay uses one thread. Reason: on a CPU, the training runs each micro-batch on one thread, and dense layers
  // may round differently with another number of threads.
  const bool is_cut =
      step.settings.batch_size < static_cast<std::int64_t>(step.batch.size()) && !step.device.workers().empty();
  Device& device = is_cut ? *step.device.workers().front() : step.device;
  const auto on_device = [&](const auto& find) {
    std::optional<NotFinite> found;
    if (!is_cut) return find();
    step.device.on_workers(1, [&](int /*worker*/) { found = find(); });
    return found;
  };
  std::string failure;
  const auto report_first = [&](const auto& find) {
    std::optional<NotFinite> found;
    std::string cause;
    try {
      if (failure.empty()) found = on_device(find);
      cause = text_of(found, step);
    } catch (const std::exception& error) {
      failure = fmt::format("it could not be replayed: {}", error.what());
      found.reset();
    }
    const bool reports = is_earliest(found, mpi);
    mpi.run_on_all([&] {
      if (reports) fail(ExitCode::failed, "{}; {}", line, cause);
    });
  };
  const auto report_failure = [&] {
    mpi.run_on_all([&] {
      if (!failure.empty()) fail(ExitCode::failed, "{}; {}", line, failure);
    });
  };
  std::optional<Replay> replay;
  report_first([&]() -> std::optional<NotFinite> {
    replay.emplace(step.tower.network(), step.tower.task(), step.settings, step.tower.parameters(),
                   step.tower.buffers(), device, step.tower.link());
    return std::nullopt;
  });
  // Without this call, the forward passes of the other ranks would wait for a rank that failed.
  if (step.tower.link() != nullptr) report_failure();
  report_first([&] { return find_in_parts(step, [&](const Batch& part) { return replay->forward(part); }); });
  report_first([&] {
    return find_in_parts(step, [&](const Batch& part) {
      static_cast<void>(replay->forward(part));
      return replay->backward();
    });
  });
  report_failure();
  fail_on_all(mpi, ExitCode::failed, line + "; replayed, all variables, outputs and gradients of all ranks are finite");
}

void fail_with_l2_cause(const std::string& line, const Tower& tower, Device& device, const Mpi& mpi) {
  const std::vector<NamedArray> variables = download(variables_of(tower.parameters()), device);
  std::string name;
  double largest = -1.0;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    double squares = 0.0;
    for (const float value : variables[i].values) squares += static_cast<double>(value) * value;
    const double part = 0.5 * tower.parameters().specs()[i].l2_factor * squares;
    if (tower.parameters().specs()[i].l2_factor == 0.0f || !(part > largest || std::isnan(part))) continue;
    largest = part;
    name = variables[i].name;
    if (std::isnan(part)) break;
  }
  fail_on_all(mpi, ExitCode::failed,
              fmt::format("{}; its {} is finite, its L2 part is not: that of variable {} is {:.3g} now", line,
                          in_words(tower.task().loss_name), name, largest));
}

}  // namespace carillon
