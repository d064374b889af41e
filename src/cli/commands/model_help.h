// --model help: prints the networks of a program and the time of a training step of each.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "carillon/cli/program_spec.h"
#include "src/cli/launch/step_time.h"
#include "src/cli/options/option_set.h"
#include "src/cli/options/picture_options.h"
#include "src/comm/mpi/mpi.h"

namespace carillon {

/// All ranks measure at the same time, because they share caches and memory. Rank 0 prints. Collective. Errors: those
/// of opening the device and of records.json.
void print_networks(const OptionSet& set, const ProgramSpec& program_spec, TrainOptions& options,
                    const PictureOptions& pictures, const Mpi& mpi);

// The table that --model help prints: size, work and speed of each network of a program.

/// Measures a training step of a network; nullopt: there is no time for it. Errors: as measure_step.
using MeasureNetwork = std::function<std::optional<StepTime>(const NamedNetwork& network)>;

/// A table with a line per network: name, parameters, multiply-adds of one sample's forward pass, and the training step
/// that `measure` measures: samples, seconds, samples per second. A network that refuses `image` has a line that states
/// why. `outputs`: as NetworkSettings::outputs.
std::string network_list(const ProgramSpec& program_spec, const ImageShape& image, std::int64_t outputs,
                         const MeasureNetwork& measure);

}  // namespace carillon
