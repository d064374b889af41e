// How an evaluation program runs: options, checkpoint, data, one line of precision.
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "carillon/comm/cpu_share.h"
#include "carillon/train/app.h"
#include "carillon/train/evaluator.h"
#include "carillon/train/program.h"

namespace carillon {
namespace {

/// The checkpoint that `place`, a file or a train directory, stands for.
LoadedCheckpoint find_checkpoint(const std::string& place, const Mpi& mpi) {
  if (!std::filesystem::is_directory(place)) return {place, read_checkpoint(place)};
  auto loaded = read_newest_checkpoint(place, [&](const std::string& line) {
    if (mpi.rank() == 0) fmt::print(stderr, "warning: {}\n", line);
  });
  if (!loaded) fail(ExitCode::no_input, "--checkpoint {}: no checkpoint in it", place);
  return std::move(*loaded);
}

/// The network as it was trained: the settings stored with the checkpoint, unless an option says otherwise.
ModelSettings settings_of(const LoadedCheckpoint& loaded, const EvalOptions& options) {
  const nlohmann::json trained = nlohmann::json::parse(loaded.state.options_json, nullptr, false);
  const double scale = trained.is_object() ? trained.value("pixel_scale", 1.0) : 1.0;
  return {.pixel_scale = static_cast<float>(options.pixel_scale > 0.0 ? options.pixel_scale : scale),
          .regularization = 0.0f,
          .distort = false,
          .seed = 0};
}

}  // namespace

ExitCode evaluate(const Program& program, int argc, char** argv, const Mpi& mpi) {
  EvalOptions options;
  options.data = program.defaults.data;
  for (std::string& pattern : options.data) pattern.replace(pattern.find("train-"), 6, "test-");
  options.checkpoint = program.defaults.train_dir;
  OptionSet set(fmt::format("Prints precision @ 1 on {} of a checkpoint: PROGRAM --data FILES --checkpoint FILE_OR_DIR",
                            program.data_set));
  declare(set, options);
  if (!program.distorts) {
    set.add("pixel-scale", options.pixel_scale, OptionSet::Interval::not_negative,
            "multiplies the pixels; 0: as in training");
  }
  if (!parse_options(set, argc, argv, mpi)) return ExitCode::done;
  agree(mpi, set.values(), {"threads"});

  const CpuShare cpu = take_cpu_share(mpi, static_cast<int>(options.threads));
  std::unique_ptr<Device> device;
  std::optional<LoadedCheckpoint> loaded;
  std::optional<Dataset> dataset;
  std::optional<Evaluator> evaluator;
  mpi.together([&] {
    device = open_device(options.device, mpi.local_rank(), cpu.thread_count);
    loaded = find_checkpoint(options.checkpoint, mpi);
    const std::string& name = loaded->state.model;
    if (std::find(program.models.begin(), program.models.end(), name) == program.models.end()) {
      fail(ExitCode::data, "{} is of model '{}', this program evaluates {}", loaded->path.string(), name,
           fmt::join(program.models, ", "));
    }
    const Model& model = model_named(name);
    evaluator.emplace(model, settings_of(*loaded, options), options.batch_size, *device);
    evaluator->load(options.raw_weights ? loaded->state.variables : loaded->state.moving_averages);
    dataset = Dataset::open(options.data, schema_for(model, options.image_key, options.label_key),
                            cache_mode(options.cache), mpi.local_size());
  });
  const Precision precision = evaluator->evaluate(*dataset, mpi);
  if (mpi.rank() == 0) {
    fmt::print("{}: {} at step {}\n", loaded->path.string(), options.raw_weights ? "variables" : "moving averages",
               loaded->state.global_step);
    fmt::print("{}\n", precision.text());
  }
  return ExitCode::done;
}

}  // namespace carillon
