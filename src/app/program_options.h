// Program options: the options of the training and evaluation programs, for programs that start them.
#pragma once

#include <string>
#include <vector>

#include "carillon/app/program_spec.h"

namespace carillon {

/// Checks the names and values of options as the training program `program` checks them when it starts.
/// `also_suggested`: other names that the error for an unknown option may suggest. Errors: usage.
void check_training_options(const std::string& program, const ProgramSpec& program_spec,
                            const std::vector<std::string>& words, const std::vector<std::string>& also_suggested);

/// The same for an evaluation program.
void check_evaluation_options(const std::string& program, const ProgramSpec& program_spec,
                              const std::vector<std::string>& words);

}  // namespace carillon
