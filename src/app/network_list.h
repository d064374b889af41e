// The table that --model help prints: size, work and speed of each network of a program.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "carillon/app/program_spec.h"
#include "src/app/step_time.h"

namespace carillon {

/// Measures a training step of a network; nullopt: there is no time for it. Errors: as measure_step.
using MeasureNetwork = std::function<std::optional<StepTime>(const NamedNetwork& network)>;

/// A table with a line per network: name, parameters, multiply-adds of one sample's forward pass, and the training step
/// that `measure` measures: samples, seconds, samples per second. A network that refuses `image` has a line that states
/// why. `outputs`: as NetworkSettings::outputs.
std::string network_list(const ProgramSpec& program_spec, const ImageShape& image, std::int64_t outputs,
                         const MeasureNetwork& measure);

}  // namespace carillon
