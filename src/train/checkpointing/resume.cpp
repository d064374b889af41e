#include "src/train/checkpointing/resume.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>

#include "carillon/core/error.h"
#include "src/core/text.h"
#include "src/models/position_grid.h"
#include "src/report/console.h"
#include "src/train/checkpointing/checkpoint_size.h"
#include "src/train/checkpointing/partial_checkpoint.h"
#include "src/train/checkpointing/torch_weights.h"

namespace carillon {
namespace {

std::optional<LoadedCheckpoint> checkpoint_to_resume(const CheckpointOptions& options, std::uint64_t max_bytes) {
  const std::filesystem::path directory = options.train_dir;
  if (options.fresh) return std::nullopt;
  if (options.resume == ResumeMode::never) {
    const std::vector<std::int64_t> steps = list_checkpoints(directory);
    if (steps.empty()) return std::nullopt;
    fail(ExitCode::usage, "--resume never: {} is there already; --fresh would remove it",
         checkpoint_path(directory, steps.front()).string());
  }
  auto loaded = read_newest_checkpoint(directory, print_warning, max_bytes);
  if (!loaded && options.resume == ResumeMode::require) {
    fail(ExitCode::no_input, "--resume require: no checkpoint in {}", directory.string());
  }
  return loaded;
}

/// `other_way`: what to do instead, for the message.
void check_model(const LoadedCheckpoint& loaded, const ModelOptions& model, std::string_view other_way) {
  if (loaded.state.model == model.name) return;
  const std::string trained = printable(loaded.state.model);
  fail(ExitCode::data, "{}: is of model '{}', this run trains '{}': set --model {}, or choose another {}",
       loaded.path.string(), trained, model.name, trained, other_way);
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

/// What --init-from names: a checkpoint, or a file with PyTorch's weights.
LoadedCheckpoint initial_state(const CheckpointOptions& options, const ModelOptions& model, const Tower& tower,
                               std::uint64_t max_bytes) {
  if (!is_weight_file(options.init_from)) {
    LoadedCheckpoint loaded = find_checkpoint(options.init_from, print_warning, max_bytes);
    fit_positions(tower.parameters().specs(), loaded.state.variables);
    return loaded;
  }
  return {options.init_from, read_weight_file(options.init_from, model.name, tower.parameters().specs(),
                                              tower.buffers().specs(), options.init_exclude)};
}

RunPosition load_or_initialize(const CheckpointOptions& options, const ModelOptions& model, const Dataset* dataset,
                               Tower& tower, Recorder& recorder) {
  const std::uint64_t max_bytes = checkpoint_read_limit(max_checkpoint_bytes(tower.network()));
  if (const std::optional<LoadedCheckpoint> loaded = checkpoint_to_resume(options, max_bytes)) {
    check_model(*loaded, model, "--train-dir");
    recorder.require_same_task(*loaded);
    tower.restore(*loaded);
    recorder.resumed(*loaded);
    return {.step = loaded->state.global_step, .stream_position = loaded->state.stream_position, .resumed = true};
  }
  if (options.init_from.empty()) {
    tower.initialize(model.seed, values_of_data(tower.network(), dataset));
  } else {
    LoadedCheckpoint initial = initial_state(options, model, tower, max_bytes);
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
    recorder.initialized(initial, excluded);
  }
  return {};
}

}  // namespace

RunPosition start_or_resume(const CheckpointOptions& options, const ModelOptions& model, const Dataset* dataset,
                            Tower& tower, Recorder& recorder, const Mpi& mpi) {
  RunPosition position;
  mpi.run_on_all([&] {
    if (mpi.rank() == 0) position = load_or_initialize(options, model, dataset, tower, recorder);
  });
  mpi.broadcast(std::as_writable_bytes(std::span(&position, 1)), 0);
  tower.broadcast_from_first();
  return position;
}

}  // namespace carillon
