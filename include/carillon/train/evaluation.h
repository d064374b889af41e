// What an evaluation program does: options, checkpoint, data, one line of precision.
#pragma once

#include <string>
#include <vector>

#include "carillon/comm/mpi.h"

namespace carillon {

/// Evaluates a checkpoint of one of the models `accepted` and prints the precision. `default_data`,
/// `default_checkpoint`: what --data and --checkpoint are when not given. Collective.
ExitCode evaluate_checkpoint(int argc, char** argv, const Mpi& mpi, const std::vector<std::string>& accepted,
                             const std::vector<std::string>& default_data, const std::string& default_checkpoint);

}  // namespace carillon
