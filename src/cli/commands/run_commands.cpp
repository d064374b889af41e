// The commands that work on a run in this process (evaluate, predict, inspect and export). Also contains doctor, which
// starts ranks.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "carillon/core/error.h"
#include "src/checkpoint/checkpoint.h"
#include "src/cli/commands/commands.h"
#include "src/cli/launch/picture_cache.h"
#include "src/cli/launch/ranks.h"
#include "src/cli/launch/run_folder.h"
#include "src/cli/options/option_set.h"
#include "src/comm/mpi/launcher.h"
#include "src/core/file_tools.h"
#include "src/core/resources.h"
#include "src/core/text.h"
#include "src/data/convert/picture_folders.h"
#include "src/train/checkpointing/saved_network.h"

namespace carillon {
namespace {

namespace fs = std::filesystem;

/// Returns the file patterns that the checkpoint stores for the option "data" or "eval_data".
std::vector<std::string> patterns_in(const LoadedCheckpoint& loaded, const std::string& option) {
  const nlohmann::json options = nlohmann::json::parse(loaded.state.options_json, nullptr, false);
  if (!options.is_object() || !options.contains(option)) return {};
  const nlohmann::json& given = options[option];
  std::vector<std::string> patterns;
  for (const nlohmann::json& pattern : given.is_array() ? given : nlohmann::json::array({given})) {
    if (pattern.is_string()) patterns.push_back(pattern.get<std::string>());
  }
  return patterns;
}

/// True if each pattern matches a file. False if the user has removed the records, or if they are synthetic.
bool all_exist(const std::vector<std::string>& patterns) {
  try {
    expand_file_patterns(patterns);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// Returns the words of the option --data for an evaluation of the run, or no words if the program's default applies.
/// `loaded`: the checkpoint of the run. Errors: usage (the records are unknown).
std::vector<std::string> evaluation_records(const fs::path& run, const LoadedCheckpoint& loaded,
                                            const ProgramSpec& program_spec) {
  const std::optional<TrainingPlan> plan = read_plan(folder_of(run));
  if (!plan) {
    const std::vector<std::string> patterns = patterns_in(loaded, "eval_data");
    if (!patterns.empty() && all_exist(patterns)) return joined({"--data"}, patterns);
    const bool has_default_data = patterns_in(loaded, "data") == program_spec.defaults.data.files;
    if (!program_spec.of_pictures && patterns.empty() && has_default_data) return {};
  }
  if (!plan || plan->evaluated.empty()) {
    fail(ExitCode::usage, "{}: its records for evaluations are not known: name records with --data", run.string());
  }
  if (!holds_conversion({plan->pictures, plan->fingerprint, plan->contents}, {plan->data, plan->conversion})) {
    fail(ExitCode::usage,
         "{}: the records in {} are no longer those of this run: repeat its carillon train, or name "
         "records with --data",
         run.string(), plan->data);
  }
  return {"--data", records_pattern(plan->data, plan->evaluated)};
}

/// Returns the option that averages over six views of each photograph in evaluations and predictions. Returns no words
/// if `given` sets the option.
std::vector<std::string> views(bool has_colours, const std::vector<std::string>& given) {
  constexpr const char* option = "test-time-augmentation";
  if (!has_colours || has_option(given, option)) return {};
  return {std::string("--") + option};
}

/// Drops a warning, because the program that runs next prints the same warning.
void ignore_warning(const std::string& /*line*/) {}

bool holds_checkpoint(const fs::path& place) {
  std::error_code error;
  return fs::is_directory(place, error) && (trained_network(place) != place || !list_checkpoints(place).empty());
}

/// True if the user gave the arguments in the wrong order: the pictures first, then the run.
bool is_swapped(const Place& run) {
  std::error_code error;
  if (!fs::is_directory(run.path, error)) return is_picture(run.path);
  return !holds_checkpoint(run.path) && std::ranges::any_of(run.others, holds_checkpoint);
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
  std::string program;
  std::vector<std::string> options{"--checkpoint", checkpoint};
  {  // a checkpoint can be large, so this block frees it before the program runs
    const LoadedCheckpoint loaded = find_checkpoint(checkpoint, ignore_warning);
    const EvaluationProgram evaluation = evaluation_program(loaded);
    program = evaluation.name;
    if (!has_option(run.others, "data")) {
      options = joined(options, evaluation_records(run.path, loaded, evaluation.spec));
    }
    options = joined(options, views(evaluation.spec.distorts, run.others));
  }
  return run_program(program, joined(options, run.others));
}

int predict_command(const std::vector<std::string>& words) {
  const Place run = place_in(words, "predict", "RUN");
  if (is_swapped(run)) {
    fail(ExitCode::usage, "{}: is no train directory or checkpoint: name the run first, then the pictures",
         run.path.string());
  }
  const std::string checkpoint = checkpoint_of(run.path).string();
  const bool has_colours = network_of(find_checkpoint(checkpoint, ignore_warning)).image.channels == 3;
  const std::vector<std::string> options = joined({"--checkpoint", checkpoint}, views(has_colours, run.others));
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
  return run_program("checkpoint_tool", joined({"export", checkpoint_of(run.path).string()}, run.others));
}

int doctor_command(const std::vector<std::string>& words) {
  hold_stop_signals();
  leave_launcher();  // the ranks have their own launcher, so this process must not count as a rank
  fmt::print("programs: {}\n", printable(programs_folder().string()));
  const fs::path mpirun = find_in_path("mpirun");
  if (mpirun.empty()) {
    fmt::print("mpirun: not in PATH: install Open MPI (package openmpi-bin)\n");
    return static_cast<int>(ExitCode::no_input);
  }
  check_mpirun();
  const std::optional<double> quota = cpu_quota();
  fmt::print("mpirun: {}\ncores: {} (CPU quota: {})\n", printable(mpirun.string()), usable_cores(),
             quota ? fmt::format("{:.3g} cores", *quota) : "none");
  std::fflush(stdout);
  const Launch launch{usable_cores(), usable_cores()};
  return exit_code_of(launch.run(launch.command("image_train", joined({"--preflight"}, words))), "image_train");
}

EvaluationProgram evaluation_program(const LoadedCheckpoint& loaded) {
  if (trained_pictures(loaded)) return {"image_eval", image_program()};
  const std::string form = trained_record_form(loaded);
  if (form == "grey") return {"mnist_eval", mnist_program()};
  if (form == "planar") return {"cifar10_eval", cifar10_program()};
  fail(ExitCode::data, "{}: only the program that trained it can read its records: evaluate with that program",
       loaded.path.string());
}

}  // namespace carillon
