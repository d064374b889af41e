// Training options: the options of a training program, for programs that start it.
#pragma once

#include <string>
#include <vector>

#include "carillon/app/program_spec.h"

namespace carillon {

/// Checks the names and values of options of the training program `program`, as it does itself. Errors: usage.
void check_training_options(const std::string& program, const ProgramSpec& program_spec,
                            const std::vector<std::string>& words);

}  // namespace carillon
