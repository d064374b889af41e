// Evaluation program: the program that evaluates the checkpoints of a training.
#pragma once

#include <string>

#include "carillon/app/program_spec.h"
#include "src/checkpoint/checkpoint.h"

namespace carillon {

struct EvaluationProgram {
  std::string name;  ///< "image_eval"
  ProgramSpec spec;
};

/// That of the program that trained the checkpoint. Errors: data (its picture options are damaged), usage (none of
/// Carillon's programs has its network).
EvaluationProgram evaluation_program(const LoadedCheckpoint& loaded);

}  // namespace carillon
