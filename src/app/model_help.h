// --model help: prints the networks of a program and the time of a training step of each.
#pragma once

#include "carillon/app/program_spec.h"
#include "src/app/picture_options.h"
#include "src/comm/mpi/mpi.h"
#include "src/options/option_set.h"

namespace carillon {

/// All ranks measure at the same time, because they share caches and memory. Rank 0 prints. Collective. Errors: those
/// of opening the device and of records.json.
void print_networks(const OptionSet& set, const ProgramSpec& program_spec, TrainOptions& options,
                    const PictureOptions& pictures, const Mpi& mpi);

}  // namespace carillon
