#include "src/launch/machine_speed.h"

#include <limits>
#include <optional>

#include "carillon/core/error.h"
#include "src/app/step_time.h"
#include "src/launch/trial.h"
#include "src/processes/passed_options.h"

namespace carillon {

double MachineSpeed::seconds_per_picture(const Candidate& candidate) {
  const std::pair key{candidate.network, candidate.image_size};
  const auto known = known_.find(key);
  if (known != known_.end()) return known->second;
  return known_[key] = training_.gpus > 0 ? measured_on_gpus(candidate) : measured_on_cpus(candidate);
}

double MachineSpeed::measured_on_cpus(const Candidate& candidate) const {
  constexpr double seconds = 1.5;
  const ProgramSpec program_spec = image_program();
  const NamedNetwork network{candidate.network, network_named(program_spec, candidate.network)};
  return training_seconds_per_image(
      network,
      {.image_size = candidate.image_size, .batch_size = 32, .threads = training_.launch.cores, .seconds = seconds});
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
    if (error.code() == ExitCode::failed) throw Error(ExitCode::usage, error.what());  // too little memory, above all
    throw;
  }
}

}  // namespace carillon
