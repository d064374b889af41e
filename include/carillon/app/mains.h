// The main functions of training and evaluation programs. A program adds its name and its ProgramSpec.
#pragma once

#include <string>

#include "carillon/app/program_spec.h"

namespace carillon {

/// Parses the options and trains. Returns the exit code of the program.
int training_main(const std::string& program, const ProgramSpec& program_spec, int argc, char** argv);

/// Parses the options, evaluates a checkpoint, prints the scores of the task's metric and writes the requested files.
/// Returns the exit code of the program.
int evaluation_main(const std::string& program, const ProgramSpec& program_spec, int argc, char** argv);

}  // namespace carillon
