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

/// All ranks measure at the same time, because they share caches and memory. Rank 0 prints. Collective. Errors: as
/// opening the device and as reading records.json.
void print_networks(const OptionSet& set, const ProgramSpec& program_spec, TrainOptions& options,
                    const PictureOptions& pictures, const Mpi& mpi);

// The table that --model help prints: size, work and speed of each network of a program.

/// Measures a training step of a network; nullopt: no time is left for the measurement. Errors: as measure_step.
using MeasureNetwork = std::function<std::optional<StepTime>(const NamedNetwork& network)>;

/// Returns a table with a line per network: name, parameters, and multiply-adds of one sample's forward pass. Then come
/// the results of `measure` for a training step: samples, seconds, samples per second. If a network refuses `image`,
/// its line states the reason. `outputs`: as NetworkSettings::outputs.
std::string network_list(const ProgramSpec& program_spec, const ImageShape& image, std::int64_t outputs,
                         const MeasureNetwork& measure);

}  // namespace carillon
