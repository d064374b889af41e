// The mains of the training and evaluation programs: all but their names and program specs.
#pragma once

#include <string>

#include "carillon/app/program_spec.h"

namespace carillon {

/// Parses options and trains. Returns the program's exit code.
int training_main(const std::string& program, const ProgramSpec& program_spec, int argc, char** argv);

/// Parses options, evaluates a checkpoint and prints one line of precision. Returns the program's exit code.
int evaluation_main(const std::string& program, const ProgramSpec& program_spec, int argc, char** argv);

}  // namespace carillon
