// The commands that work on a run: evaluate, predict, inspect and export. Also doctor.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "carillon/core/error.h"
#include "src/checkpoint/checkpoint.h"
#include "src/core/printable.h"
#include "src/data/convert/picture_list.h"
#include "src/data/records/file_pattern.h"
#include "src/launch/commands.h"
#include "src/launch/evaluation_program.h"
#include "src/launch/picture_training.h"
#include "src/launch/run_place.h"
#include "src/launch/say.h"
#include "src/processes/passed_options.h"

namespace carillon {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> command(const std::string& program, std::vector<std::string> words) {
  words.insert(words.begin(), program_as_called(program));
  return words;
}

int run_program(const std::string& program, const std::vector<std::string>& words) {
  return run_child(command(program, words), {.stop_signal = SIGTERM, .death_signal = SIGTERM}).exit_code;
}

/// The records that the training of a checkpoint evaluated on: --eval-data. Empty: none, or they are gone.
std::vector<std::string> trained_eval_data(const LoadedCheckpoint& loaded) {
  const nlohmann::json options = nlohmann::json::parse(loaded.state.options_json, nullptr, false);
  if (!options.is_object() || !options.contains("eval_data")) return {};
  const nlohmann::json& given = options["eval_data"];
  std::vector<std::string> patterns;
  for (const nlohmann::json& pattern : given.is_array() ? given : nlohmann::json::array({given})) {
    if (pattern.is_string()) patterns.push_back(pattern.get<std::string>());
  }
  try {
    expand_file_patterns(patterns);
  } catch (const Error&) {  // they are gone, or synthetic
    return {};
  }
  return patterns;
}

/// --data for an evaluation of the run, whose checkpoint is `loaded`. Empty: those that the program reads by default.
/// Errors: usage (the records are unknown).
std::vector<std::string> evaluation_records(const fs::path& run, const LoadedCheckpoint& loaded,
                                            const ProgramSpec& program_spec) {
  const std::optional<TrainingPlan> plan = read_plan(folder_of(run));
  if (!plan) {
    const std::vector<std::string> patterns = trained_eval_data(loaded);
    if (!patterns.empty()) return joined({"--data"}, patterns);
    if (!program_spec.of_pictures) return {};
  }
  if (!plan || plan->evaluated.empty()) {
    fail(ExitCode::usage, "{}: its records for evaluations are not known: name records with --data", run.string());
  }
  if (!holds_conversion({.path = plan->pictures, .fingerprint = plan->fingerprint}, {plan->data, plan->conversion})) {
    fail(ExitCode::usage,
         "{}: the records in {} are no longer those of this run: repeat its carillon train, or name "
         "records with --data",
         run.string(), plan->data);
  }
  return {"--data", records_pattern(plan->data, plan->evaluated)};
}

/// Predictions use the same views as evaluations of a picture, unless `given` says otherwise.
std::vector<std::string> views(const std::vector<std::string>& given) {
  constexpr const char* option = "test-time-augmentation";
  return has_option(given, option) ? std::vector<std::string>{} : std::vector<std::string>{std::string("--") + option};
}

bool holds_checkpoint(const fs::path& place) {
  std::error_code error;
  return fs::is_directory(place, error) && (trained_network(place) != place || !list_checkpoints(place).empty());
}

/// Whether the pictures come first, and the run after them.
bool is_swapped(const Place& run) {
  return is_picture_name(run.path) ||
         (!holds_checkpoint(run.path) && std::ranges::any_of(run.others, holds_checkpoint));
}

bool is_record_file(const fs::path& path) { return path.extension() == ".tfrecord"; }

std::vector<std::string> record_files(const fs::path& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (is_record_file(entry.path())) files.push_back(entry.path().string());
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace

int evaluate_command(const std::vector<std::string>& words) {
  const Place run = place_in(words, "evaluate", "RUN");
  const std::string checkpoint = checkpoint_of(run.path).string();
  const LoadedCheckpoint loaded = find_checkpoint(checkpoint, [](const std::string&) {});
  const EvaluationProgram program = evaluation_program(loaded);
  std::vector<std::string> options;
  if (!has_option(run.others, "data")) options = evaluation_records(run.path, loaded, program.spec);
  options.insert(options.end(), {"--checkpoint", checkpoint});
  if (program.spec.distorts) options = joined(options, views(run.others));
  return run_program(program.name, joined(options, run.others));
}

int predict_command(const std::vector<std::string>& words) {
  const Place run = place_in(words, "predict", "RUN");
  if (is_swapped(run)) {
    fail(ExitCode::usage, "{}: is no train directory or checkpoint: name the run first, then the pictures",
         run.path.string());
  }
  const std::vector<std::string> options =
      joined({"--checkpoint", checkpoint_of(run.path).string()}, views(run.others));
  return run_program("carillon_predict", joined(options, run.others));
}

int inspect_command(const std::vector<std::string>& words) {
  const Place place = place_in(words, "inspect", "RUN_OR_RECORDS");
  if (is_record_file(place.path)) return run_program("tfrecord_inspect", words);
  if (const std::vector<std::string> files = record_files(place.path); !files.empty()) {
    return run_program("tfrecord_inspect", joined(files, place.others));
  }
  return run_program("checkpoint_tool", joined({"inspect", checkpoint_of(place.path).string()}, place.others));
}

int export_command(const std::vector<std::string>& words) {
  const Place run = place_in(words, "export", "RUN");
  return run_program("checkpoint_tool", joined(joined({"export"}, run.others), {checkpoint_of(run.path).string()}));
}

int doctor_command(const std::vector<std::string>& words) {
  fmt::print("programs: {}\n", printable(programs_folder().string()));
  const fs::path mpirun = find_in_path("mpirun");
  if (mpirun.empty()) {
    fmt::print("mpirun: not in PATH: install Open MPI (package openmpi-bin)\n");
    return static_cast<int>(ExitCode::no_input);
  }
  fmt::print("mpirun: {}\ncores: {}\n", printable(mpirun.string()), usable_cores());
  std::fflush(stdout);
  const Launch launch{usable_cores(), usable_cores()};
  const int code = launch.run(launch.command("image_train", joined({"--preflight"}, words))).exit_code;
  if (code == 0) say("this machine is ready");
  return code;
}

}  // namespace carillon
