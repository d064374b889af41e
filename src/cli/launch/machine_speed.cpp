#include "src/cli/launch/machine_speed.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "carillon/cli/program_spec.h"
#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "src/cli/options/option_set.h"
#include "src/core/file_tools.h"
#include "src/device/cpu_device.h"
#include "src/tasks/classification.h"
#include "src/train/control/rank_device.h"
#include "src/train/loop/run_times.h"
#include "src/train/preflight/step_time.h"

namespace carillon {
namespace {

namespace fs = std::filesystem;

void make_empty_folder(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (!error) fs::create_directories(path, error);
  if (error) fail(ExitCode::io, "{}: cannot create the folder: {}", path.string(), error.message());
}

/// Returns the field `step_seconds` of each line of metrics.jsonl, in the order of the steps.
std::vector<double> step_times(const fs::path& metrics) {
  std::vector<double> seconds;
  LinesFromEnd lines(metrics);
  while (const auto line = lines.next()) {
    const nlohmann::json json = nlohmann::json::parse(line->text, nullptr, false);
    if (json.is_object() && json.contains("step_seconds")) seconds.push_back(json["step_seconds"].get<double>());
  }
  std::ranges::reverse(seconds);
  return seconds;
}

/// Returns the median seconds of a step of image_train on noise, or nullopt if a stop signal arrived.
std::optional<double> trial_step_seconds(const MeasuredTraining& training, const Candidate& candidate) {
  constexpr std::int64_t steps = 10;
  const fs::path &directory = training.directory, settings_file = directory / "trial.cfg",
                 output = directory / "output.txt";
  const RemovedAtEnd removed(directory);
  make_empty_folder(directory);
  const std::string settings_text =
      training_settings({.candidate = candidate, .batch_size = training.batch_size}, steps);
  write_file_atomically(settings_file, std::as_bytes(std::span(settings_text)), OptionSet::max_config_bytes);
  const std::vector<std::string> words{"--config", settings_file.string(), "--data", "synthetic", "--classes", "10",
                                       "--train-dir", directory.string(), "--max-steps", std::to_string(steps),
                                       "--log-every", "1", "--checkpoint-every", "0",
                                       // The environment may set --eval-data, but a trial has no evaluations.
                                       "--eval-every", "0", "--patience", "0", "--stop-at-accuracy", "0",
                                       "--test-time-augmentation=false", "--resume", "auto"};
  ChildSettings settings = training.launch.settings();
  settings.output = output;
  const ChildResult result =
      run_child(training.launch.command("image_train", joined(words, training.device_options)), settings);
  if (result.stopped) return std::nullopt;
  if (result.exit_code != 0) {
    print_text(STDERR_FILENO, read_plain_file(output, output.string(), std::size_t{1} << 20));
    throw Error(static_cast<ExitCode>(exit_code_of(result, "image_train")),
                "a trial of the training failed; see the message above");
  }
  std::vector<double> times = step_times(directory / "metrics.jsonl");
  if (times.empty()) fail(ExitCode::failed, "{}: the trial logged no step", directory.string());
  if (times.size() > 4) times.erase(times.begin(), times.begin() + 2);  // the first steps are slower
  return median(std::move(times));
}

}  // namespace

double MachineSpeed::seconds_per_picture(const Candidate& candidate) {
  const std::pair key{candidate.network, candidate.image_size};
  const auto known = known_.find(key);
  if (known != known_.end()) return known->second;
  const double seconds = training_.gpus > 0 ? measured_on_gpus(candidate) : measured_on_cpus(candidate);
  if (std::isfinite(seconds)) {
    say(fmt::format("{} at {}x{} pixels: {:.3g} pictures/s", candidate.network, candidate.image_size,
                    candidate.image_size, 1.0 / seconds));
  }
  return known_[key] = seconds;
}

double MachineSpeed::measured_on_cpus(const Candidate& candidate) {
  constexpr std::int64_t classes = 10, batch_size = 32;
  const ProgramSpec program_spec = image_program();
  const MakeNetwork make = network_named(program_spec, candidate.network);
  const NetworkSettings network{.image = {.height = candidate.image_size, .width = candidate.image_size, .channels = 3},
                                .outputs = classes,
                                .regularization = 0.0001f};
  CpuDevice device(1);  // also sets the number of OpenMP threads of this thread to 1
  const StepTimeSettings settings{
      .network = network,
      .task = classification_task({.classes = classes}),
      .arithmetic = automatic_precision(device.kind(), {available_isas().back()}, make(network), batch_size),
      .optimizer = program_spec.defaults.optimizer.update,
      .batch_size = batch_size,
      .seconds = 1.5,
      .clock = CLOCK_THREAD_CPUTIME_ID};
  const Stopwatch elapsed(CLOCK_MONOTONIC), processor(settings.clock);
  const double seconds = measure_step(make, settings, device).seconds_per_image();
  elapsed_seconds_ += elapsed.seconds();
  processor_seconds_ += processor.seconds();
  return seconds / training_.launch.cores;
}

double MachineSpeed::measured_on_gpus(const Candidate& candidate) {
  constexpr double unknown = std::numeric_limits<double>::infinity();
  if (is_stopped_) return unknown;
  try {
    const std::optional<double> seconds = trial_step_seconds(training_, candidate);
    is_stopped_ = !seconds;
    return seconds ? *seconds / static_cast<double>(training_.batch_size) : unknown;
  } catch (const Error& error) {
    if (error.code() == ExitCode::failed) throw Error(ExitCode::usage, error.what());  // usually too little memory
    throw;
  }
}

}  // namespace carillon
