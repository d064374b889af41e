// ProgramSpec: the dataset, networks, task and default options of a training program and its evaluation program, such
// as mnist_train and mnist_eval. This file also declares the main functions of such programs. Your own programs define
// a ProgramSpec in the same way (docs/user-guide/your-own-model).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "carillon/cli/options/train_options.h"

namespace carillon {

/// A network, and the name by which command lines and checkpoints refer to it.
struct NamedNetwork {
  std::string name;
  MakeNetwork make;
};

/// Creates the task of a program from the schema of its records and the options. Evaluation programs pass
/// TaskOptions{}, so the task's target and its number of outputs must not depend on the options.
using MakeTask = Task (*)(const RecordSchema& schema, const TaskOptions& options);

/// The default of --decay-steps if a program has no ProgramSpec::decay_steps.
inline constexpr std::int64_t decay_steps_without_rule = 1000;

struct ProgramSpec {
  std::string data_set;                ///< name in --help: "MNIST"
  std::vector<NamedNetwork> networks;  ///< the values of --model; the first is the default
  /// Defaults of the training program's options. Each of `defaults.data.files` must contain "train-". The evaluation
  /// program's default of --data has the same files, with the first "train-" in each name replaced by
  /// `evaluation_split`.
  TrainOptions defaults;
  std::string evaluation_split = "test-";
  MakeTask make_task = nullptr;  ///< null: the standard task for schema.target
  bool has_own_task() const { return make_task != nullptr; }
  /// The program's own op types. The evaluation program finds the op types of a checkpoint by name in this list.
  std::vector<const OpType*> op_types = {};
  std::vector<std::string> class_names = {};  ///< names by label; empty: messages show the label numbers
  /// True: the records contain pictures of any size, and options such as --image-size state how a picture becomes an
  /// image. The schema and the decoder then come from records.json and the options, not from `defaults`.
  bool of_pictures = false;
  /// True: the images are colour photographs. The training program has the option --distort, and both programs have the
  /// option --test-time-augmentation. The networks normalise the pixels, so the programs have no --pixel-scale.
  bool distorts = false;
  /// If a training will take more than an hour, a notice recommends this network and this size of square pictures.
  /// Empty: no notice.
  std::string fast_network = {};
  std::int64_t fast_image_size = 0;  ///< 0: the size of the images is fixed
  /// The default of --decay-steps, as a function of (batch size per rank, number of ranks). With --global-batch, the
  /// arguments are (global batch, 1). Null: decay_steps_without_rule.
  std::int64_t (*decay_steps)(std::int64_t batch_size, int rank_count) = nullptr;
};

/// Returns the names of program_spec.networks, in the same order.
std::vector<std::string> network_names(const ProgramSpec& program_spec);
/// Returns the function that makes the network with this name, or the network in an ONNX file. Errors: failed (no
/// network has this name), and the errors of reading the file.
MakeNetwork network_named(const ProgramSpec& program_spec, const std::string& name);

/// Creates the task of the program.
Task task_of(const ProgramSpec& program_spec, const RecordSchema& schema, const TaskOptions& options = {});

/// mnist_train and mnist_eval.
ProgramSpec mnist_program();
/// cifar10_train and cifar10_eval.
ProgramSpec cifar10_program();
/// image_train and image_eval.
ProgramSpec image_program();

// The main function of a program first calls one of these functions, with the program's name, its ProgramSpec and the
// arguments of main. Nothing may precede this call: if the environment variable GOMP_SPINCOUNT is not set, these
// functions set it and restart the program once.

/// Parses the options and trains. Returns the exit code of the program.
int training_main(const std::string& program, const ProgramSpec& program_spec, int argc, char** argv);

/// Parses the options, evaluates a checkpoint, prints the scores of the task's metric and writes the requested files.
/// Returns the exit code of the program.
int evaluation_main(const std::string& program, const ProgramSpec& program_spec, int argc, char** argv);

}  // namespace carillon
