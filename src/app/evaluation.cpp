// How an evaluation program runs: options, checkpoint, data, one line of precision.
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "carillon/app/app.h"
#include "carillon/app/program.h"
#include "carillon/comm/cpu_share.h"
#include "carillon/run/evaluator.h"

namespace carillon {
namespace {

/// The checkpoint that `place`, a file or a train directory, stands for.
LoadedCheckpoint find_checkpoint(const std::string& place) {
  std::error_code error;
  if (!std::filesystem::is_directory(place, error)) return {place, read_checkpoint(place)};
  auto loaded = read_newest_checkpoint(
      place, [](const std::string& line) { print_text(STDERR_FILENO, fmt::format("warning: {}\n", line)); });
  if (!loaded) fail(ExitCode::no_input, "--checkpoint {}: no checkpoint in it", place);
  return std::move(*loaded);
}

/// What all ranks must know of the checkpoint that rank 0 has read.
nlohmann::json description(const LoadedCheckpoint& loaded) {
  const nlohmann::json trained = nlohmann::json::parse(loaded.state.options_json, nullptr, false);
  return {{"model", loaded.state.model},
          {"pixel_scale", trained.is_object() ? trained.value("pixel_scale", 1.0) : 1.0}};
}

Dataset open_data(const EvalOptions& options, const Model& model, const Mpi& mpi) {
  std::optional<Dataset> dataset;
  mpi.run_on_all([&] {
    dataset = Dataset::open(options.data, schema_for(model, options.image_key, options.label_key),
                            cache_mode(options.cache), mpi.local_size());
  });
  agree(mpi, {{"evaluation records", dataset->size()}, {"evaluation record checksum", dataset->fingerprint()}});
  return std::move(*dataset);
}

void print_result(const LoadedCheckpoint& loaded, const EvalOptions& options, const Precision& precision) {
  fmt::print("{}: {} at step {}\n{}\n", loaded.path.string(), options.raw_weights ? "variables" : "moving averages",
             loaded.state.global_step, precision.text());
  if (std::fflush(stdout) != 0) fail(ExitCode::io, "cannot write to standard output: {}", errno_text(errno));
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
  if (!parse_options(set, argc, argv, mpi, {"threads"})) return ExitCode::done;

  const CpuShare cpu = take_cpu_share(mpi, static_cast<int>(options.threads));
  std::unique_ptr<Device> device;
  std::optional<LoadedCheckpoint> loaded;  // on rank 0
  mpi.run_on_all([&] {
    device = open_device({options.device, arithmetic(options.precision), mpi.local_rank(), cpu.thread_count});
    if (mpi.rank() != 0) return;
    loaded = find_checkpoint(options.checkpoint);
    const auto& models = program.models;
    if (std::find(models.begin(), models.end(), loaded->state.model) == models.end()) {
      fail(ExitCode::data, "{} is of model '{}', this program evaluates {}", loaded->path.string(), loaded->state.model,
           fmt::join(models, ", "));
    }
  });
  const nlohmann::json known = nlohmann::json::parse(mpi.all_gather(loaded ? description(*loaded).dump() : "").front());
  const Model& model = model_named(known.at("model").get<std::string>());
  const double scale = options.pixel_scale > 0.0 ? options.pixel_scale : known.at("pixel_scale").get<double>();
  const Dataset dataset = open_data(options, model, mpi);
  Evaluator evaluator(model, {.pixel_scale = static_cast<float>(scale)}, options.batch_size, *device);
  mpi.run_on_all([&] {
    if (loaded) evaluator.load(*loaded, !options.raw_weights);
  });
  evaluator.broadcast_from_first(mpi);
  const Precision precision = evaluator.evaluate(dataset, mpi);
  mpi.run_on_all([&] {
    if (loaded) print_result(*loaded, options, precision);
  });
  return ExitCode::done;
}

}  // namespace carillon
