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

/// mnist_eval or cifar10_eval if the training of the checkpoint was one of mnist_train or cifar10_train, else
/// image_eval. Errors: data (its picture options are damaged).
EvaluationProgram evaluation_program(const LoadedCheckpoint& loaded);

}  // namespace carillon
