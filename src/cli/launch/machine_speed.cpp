#include "src/cli/launch/machine_speed.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "src/cli/launch/passed_options.h"
#include "src/cli/launch/step_time.h"
#include "src/cli/options/option_set.h"
#include "src/core/file_tools.h"

namespace carillon {
namespace {

namespace fs = std::filesystem;

/// Options that a trial must not get: options for length, files and evaluations, and options that count steps.
const std::vector<std::string> not_for_trials{"max-steps",
                                              "patience",
                                              "test-time-augmentation",
                                              "epochs",
                                              "train-dir",
                                              "data",
                                              "eval-data",
                                              "eval-every",
                                              "log-every",
                                              "checkpoint-every",
                                              "resume",
                                              "time-limit",
                                              "summary-every",
                                              "stop-at-accuracy",
                                              "schedule",
                                              "warmup-steps",
                                              "warmup-from",
                                              "schedule-steps",
                                              "schedule-power",
                                              "milestones",
                                              "schedule-knots",
                                              "milestone-factor",
                                              "decay-steps",
                                              "lookahead-every",
                                              "lookahead-power",
                                              "lookahead-steps",
                                              "lookahead-decay",
                                              "final-learning-rate",
                                              "learning-rate-decay"};

void make_empty_folder(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (!error) fs::create_directories(path, error);
  if (error) fail(ExitCode::io, "{}: cannot create the folder: {}", path.string(), error.message());
}

/// The field `step_seconds` of each line of metrics.jsonl, in the order of the steps.
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

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

std::optional<TrialSpeed> try_training(const Launch& launch, const Trial& trial) {
  const fs::path &directory = trial.directory, settings_file = directory / "trial.cfg",
                 output = directory / "output.txt";
  const RemovedAtEnd removed(directory);
  make_empty_folder(directory);
  write_file_atomically(settings_file, std::as_bytes(std::span(trial.settings)), OptionSet::max_config_bytes);
  std::vector<std::string> words{"--config", settings_file.string(), "--data", trial.data, "--train-dir",
                                 directory.string(), "--max-steps", std::to_string(trial.steps), "--log-every", "1",
                                 "--checkpoint-every", "0",
                                 // The environment may request evaluations, but a trial has no evaluations.
                                 "--eval-every", "0", "--patience", "0", "--stop-at-accuracy", "0",
                                 "--test-time-augmentation=false", "--resume", "auto"};
  words = joined(words, without(trial.options, not_for_trials));
  ChildSettings settings = launch.settings();
  settings.output = output;
  const auto started = std::chrono::steady_clock::now();
  const ChildResult result = run_child(launch.command("image_train", words), settings);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  if (result.stopped) return std::nullopt;
  if (result.exit_code != 0) {
    print_text(STDERR_FILENO, read_plain_file(output, output.string(), std::size_t{1} << 20));
    throw Error(static_cast<ExitCode>(exit_code_of(result, "image_train")),
                "a trial of the training failed; see the message above");
  }
  std::vector<double> times = step_times(directory / "metrics.jsonl");
  if (times.empty()) fail(ExitCode::failed, "{}: the trial logged no step", directory.string());
  double of_steps = 0.0;
  for (const double time : times) of_steps += time;
  if (times.size() > 4) times.erase(times.begin(), times.begin() + 2);  // the first steps are slower
  return TrialSpeed{.start_seconds = std::max(0.0, seconds - of_steps), .step_seconds = median(times)};
}

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

double MachineSpeed::measured_on_cpus(const Candidate& candidate) const {
  constexpr double seconds = 1.5;
  const ProgramSpec program_spec = image_program();
  const NamedNetwork network{candidate.network, network_named(program_spec, candidate.network)};
  return training_seconds_per_image(network,
                                    {.image_size = candidate.image_size, .batch_size = 32, .seconds = seconds}) /
         training_.launch.cores;
}

double MachineSpeed::measured_on_gpus(const Candidate& candidate) {
  constexpr std::int64_t steps = 10;
  constexpr double unknown = std::numeric_limits<double>::infinity();
  if (is_stopped_) return unknown;
  const TrainingChoice choice{.candidate = candidate, .batch_size = training_.batch_size};
  try {
    const std::optional<TrialSpeed> speed =
        try_training(training_.launch, {.settings = training_settings(choice, steps),
                                        .data = "synthetic",
                                        .options = joined(training_.device_options, {"--classes", "10"}),
                                        .steps = steps,
                                        .directory = training_.directory});
    is_stopped_ = !speed;
    return speed ? speed->step_seconds / static_cast<double>(training_.batch_size) : unknown;
  } catch (const Error& error) {
    if (error.code() == ExitCode::failed) throw Error(ExitCode::usage, error.what());  // usually too little memory
    throw;
  }
}

}  // namespace carillon
