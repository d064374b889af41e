// The subcommands of the program `carillon`. Each starts other programs of Carillon.
#pragma once

#include <string>
#include <vector>

#include "src/core/manual.h"

namespace carillon {

/// A subcommand. `run` gets the words after its name and returns the exit code of `carillon`.
struct Command {
  std::string name;
  std::string synopsis;  ///< its arguments: "FOLDER [OPTION...]"
  std::string purpose;   ///< one line
  std::string programs;  ///< that it starts: "image_train, image_eval"
  int (*run)(const std::vector<std::string>& words);
};

/// Converts pictures, chooses a training, trains and evaluates.
int train_command(const std::vector<std::string>& words);
/// The options of train_command itself, for --help.
ManualGroup train_options();

/// Prints the accuracy of a run on its evaluation pictures.
int evaluate_command(const std::vector<std::string>& words);
/// Predicts the classes of pictures with a run.
int predict_command(const std::vector<std::string>& words);
/// Describes a run, a checkpoint, or record files.
int inspect_command(const std::vector<std::string>& words);
/// Writes the network of a run as ONNX.
int export_command(const std::vector<std::string>& words);
/// Summarises a run: its length, evaluations, and the classes that it confuses.
int report_command(const std::vector<std::string>& words);
/// Prints versions and paths, and checks this machine.
int doctor_command(const std::vector<std::string>& words);

}  // namespace carillon
