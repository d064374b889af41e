// ProgramSpec: dataset, networks, task and default options of one pair of programs, such as mnist_train and mnist_eval.
// Your own programs define one too (docs/user-guide/your-own-model).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "carillon/options/train_options.h"

namespace carillon {

/// A network with its name on the command line and in checkpoints.
struct NamedNetwork {
  std::string name;
  MakeNetwork make;
};

/// Creates the task of a program from the schema of its records and the options. Evaluations use default options.
using MakeTask = Task (*)(const RecordSchema& schema, const TaskOptions& options);

inline constexpr std::int64_t decay_steps_without_rule = 1000;

struct ProgramSpec {
  std::string data_set;                ///< for --help: "MNIST"
  std::vector<NamedNetwork> networks;  ///< the values of --model; the first is the default
  /// Defaults of the options. Each of `defaults.data.files` contains "train-". Evaluations replace "train-" by
  /// `evaluation_split`.
  TrainOptions defaults;
  std::string evaluation_split = "test-";
  MakeTask make_task = nullptr;               ///< null: classification into schema.class_count classes
  std::vector<std::string> class_names = {};  ///< by label; empty: messages show the label numbers
  /// The records hold pictures of any size, and options say how they become images (src/app/picture_options.h). The
  /// program then replaces the schema and the decoder of the defaults.
  bool of_pictures = false;
  /// The images are colour photographs: the program has --distort and --test-time-augmentation. Its networks normalise
  /// the pixels, so it has no --pixel-scale.
  bool distorts = false;
  /// The default of --decay-steps, from the batch size per rank and the number of ranks. Null:
  /// decay_steps_without_rule.
  std::int64_t (*decay_steps)(std::int64_t batch_size, int rank_count) = nullptr;
};

/// The names of the networks, in their order.
std::vector<std::string> network_names(const ProgramSpec& program_spec);
/// A table with a line per network: name, parameter count, and multiply-adds for one sample of shape `image`.
/// `outputs`: output elements per sample, as NetworkSettings::outputs.
std::string network_list(const ProgramSpec& program_spec, const ImageShape& image, std::int64_t outputs);
/// The network of this name. Errors: failed (there is none).
MakeNetwork network_named(const ProgramSpec& program_spec, const std::string& name);

/// The task of the program.
Task task_of(const ProgramSpec& program_spec, const RecordSchema& schema, const TaskOptions& options = {});

/// mnist_train and mnist_eval.
ProgramSpec mnist_program();
/// cifar10_train and cifar10_eval.
ProgramSpec cifar10_program();
/// image_train and image_eval.
ProgramSpec image_program();

}  // namespace carillon
