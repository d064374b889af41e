// Program: what distinguishes mnist_train and mnist_eval from cifar10_train and cifar10_eval.
#pragma once

#include <string>
#include <vector>

#include "carillon/app/options.h"
#include "carillon/comm/mpi.h"

namespace carillon {

struct Program {
  std::string data_set;             ///< "MNIST", for --help
  std::vector<std::string> models;  ///< that can be trained on it, the default first
  TrainOptions defaults;            ///< the reference's values
  bool distorts = false;            ///< has --distort; its images are standardised, so it has no --pixel-scale
  /// --decay-steps when not given, from the batch size per tower and the number of towers.
  std::int64_t (*decay_steps)(std::int64_t batch_size, int tower_count) = nullptr;
};

/// What mnist_train and mnist_eval are.
const Program& mnist_program();
/// What cifar10_train and cifar10_eval are.
const Program& cifar10_program();

/// Parses options and trains. Collective.
ExitCode train(const Program& program, int argc, char** argv, const Mpi& mpi);

/// Parses options, evaluates a checkpoint and prints one line of precision. Collective.
ExitCode evaluate(const Program& program, int argc, char** argv, const Mpi& mpi);

}  // namespace carillon
