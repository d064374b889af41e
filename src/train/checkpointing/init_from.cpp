#include "src/train/checkpointing/init_from.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "carillon/core/error.h"
#include "src/core/text.h"
#include "src/models/position_grid.h"
#include "src/report/console.h"
#include "src/train/checkpointing/torch_weights.h"
#include "src/train/checkpointing/training_state.h"

namespace carillon {
namespace {

std::vector<float> first_values(const ParameterSpec& spec, std::uint64_t seed, const std::vector<GivenValues>& given) {
  const auto own = std::ranges::find(given, spec.name, &GivenValues::variable);
  return own == given.end() ? initial_values(spec, seed) : own->values;
}

/// Sets the network's variables and buffers that match one of `patterns` to initial values in the checkpoint, which may
/// lack them. Initial values of variables are `given` or drawn from `seed`. In shell patterns, `*` matches `/` too.
/// Returns the names of these variables and buffers. Errors: usage (a pattern matches no variable; lists all
/// variables).
std::vector<std::string> exclude(const std::vector<std::string>& patterns, const ParameterStore& parameters,
                                 const BufferStore& buffers, std::uint64_t seed, const std::vector<GivenValues>& given,
                                 CheckpointState& checkpoint) {
  check_patterns("--init-exclude", patterns, parameters.specs());
  const auto is_excluded = [&](const NamedArray& array) { return matches_any(patterns, array.name); };
  std::erase_if(checkpoint.variables, is_excluded);
  std::erase_if(checkpoint.buffers, is_excluded);
  std::vector<std::string> names;
  for (const ParameterSpec& spec : parameters.specs()) {
    if (!matches_any(patterns, spec.name)) continue;
    checkpoint.variables.push_back({spec.name, spec.shape.extents(), first_values(spec, seed, given)});
    names.push_back(spec.name);
  }
  for (const BufferSpec& spec : buffers.specs()) {
    if (!matches_any(patterns, spec.name)) continue;
    const auto count = static_cast<std::size_t>(spec.shape.element_count());
    checkpoint.buffers.push_back({spec.name, spec.shape.extents(), std::vector<float>(count, spec.initial_value)});
    names.push_back(spec.name);
  }
  return names;
}

/// The network's initial values that depend on data, from the images of `dataset`.
std::vector<GivenValues> values_of_data(const Network& network, const Dataset* dataset) {
  std::vector<GivenValues> given;
  for (const ValuesOfData& wanted : network.values_of_data) {
    check(dataset != nullptr, "initial values that depend on data need a dataset");
    const std::size_t count = std::min(dataset->size(), static_cast<std::size_t>(wanted.max_records));
    const std::size_t bytes = dataset->image_bytes();
    std::vector<std::uint8_t> memory(count * bytes);
    std::vector<const std::uint8_t*> images;
    std::vector<std::byte> target(dataset->target_bytes());
    for (std::size_t i = 0; i < count; ++i) {
      const std::span<std::uint8_t> image = std::span(memory).subspan(i * bytes, bytes);
      dataset->read(i, i, image, target);
      images.push_back(image.data());
    }
    given.push_back({wanted.variable, wanted.compute(images)});
  }
  return given;
}

/// Resizes the positions of a vision transformer that was trained at another image size.
void fit_positions(const std::vector<ParameterSpec>& specs, std::vector<NamedArray>& variables) {
  for (const ParameterSpec& spec : specs) {
    const auto trained = std::ranges::find(variables, spec.name, &NamedArray::name);
    const std::vector<std::int64_t> shape = spec.shape.extents();
    if (!spec.is_embedding || trained == variables.end() || trained->shape == shape) continue;
    if (!are_position_grids(trained->shape, shape)) continue;
    trained->values = resized_positions(trained->values, trained->shape, shape);
    trained->shape = shape;
  }
}

/// Loads the file that --init-from names: a checkpoint, or a file with PyTorch's weights.
LoadedCheckpoint initial_state(const CheckpointOptions& options, const Tower& tower, std::uint64_t max_bytes) {
  if (!is_weight_file(options.init_from)) {
    LoadedCheckpoint loaded = find_checkpoint(options.init_from, print_warning, max_bytes);
    fit_positions(tower.parameters().specs(), loaded.state.variables);
    return loaded;
  }
  return {options.init_from, read_weight_file(options.init_from, tower.network(), tower.parameters().specs(),
                                              tower.buffers().specs(), options.init_exclude)};
}

std::string initialized_line(const LoadedCheckpoint& initial, const std::vector<std::string>& excluded) {
  const std::size_t arrays = initial.state.variables.size() + initial.state.buffers.size();
  std::string line =
      fmt::format("initialized from {}: {} arrays", printable(initial.path.string()), arrays - excluded.size());
  if (!excluded.empty()) {
    line += fmt::format(", without the variables of --init-exclude: {}",
                        printable(fmt::format("{}", fmt::join(excluded, ", "))));
  }
  return line;
}

/// Empty: no warning.
std::string preprocessing_warning(const LoadedCheckpoint& initial, const RunDescription& description) {
  const auto preprocessing = [](const std::string& json) {
    const nlohmann::json options = nlohmann::json::parse(json, nullptr, false);
    return options.is_object() && options.contains("preprocessing") ? options["preprocessing"].dump() : "";
  };
  const std::string trained = preprocessing(initial.state.options_json), own = preprocessing(description.json());
  if (trained.empty() || own.empty() || trained == own) return {};
  return fmt::format("{} was trained with --preprocessing {}, and this run has {}", printable(initial.path.string()),
                     printable(trained), own);
}

}  // namespace

void print_initialized(const LoadedCheckpoint& initial, const std::vector<std::string>& excluded,
                       const RunDescription& description) {
  print_text(STDOUT_FILENO, initialized_line(initial, excluded) + "\n");
  const std::string warning = preprocessing_warning(initial, description);
  if (!warning.empty()) print_warning(warning);
}

void check_model(const LoadedCheckpoint& loaded, const ModelOptions& model, std::string_view other_way) {
  if (loaded.state.model == model.name) return;
  const std::string trained = printable(loaded.state.model);
  fail(ExitCode::data, "{}: is of model '{}', this run trains '{}': set --model {}, or choose another {}",
       loaded.path.string(), trained, model.name, trained, other_way);
}

void initialize(const CheckpointOptions& options, const ModelOptions& model, const Dataset* dataset,
                const RunDescription& description, Tower& tower) {
  if (options.init_from.empty()) return tower.initialize(model.seed, values_of_data(tower.network(), dataset));
  LoadedCheckpoint initial =
      initial_state(options, tower, checkpoint_read_limit(max_checkpoint_bytes(tower.network())));
  check_model(initial, model, "--init-from");
  std::vector<std::string> excluded;
  if (!options.init_exclude.empty()) {
    excluded = exclude(options.init_exclude, tower.parameters(), tower.buffers(), model.seed,
                       values_of_data(tower.network(), dataset), initial.state);
  }
  try {
    tower.initialize_from(initial);
  } catch (const Error& error) {
    if (error.code() != ExitCode::data) throw;
    fail(error.code(), "{} (--init-exclude gives variables their initial values)", error.what());
  }
  print_initialized(initial, excluded, description);
}

}  // namespace carillon
