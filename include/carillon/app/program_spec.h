// ProgramSpec: what distinguishes mnist_train and mnist_eval from cifar10_train and cifar10_eval, and from programs of
// one's own (docs/your_own_model).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "carillon/train/train_options.h"

namespace carillon {

/// A network by its name on the command line and in checkpoints.
struct NamedNetwork {
  std::string name;
  MakeNetwork make;
};

inline constexpr std::int64_t decay_steps_without_rule = 1000;

struct ProgramSpec {
  std::string data_set;                ///< "MNIST", for --help
  std::vector<NamedNetwork> networks;  ///< that can be trained on it (--model), the default first
  /// The reference's values. Each pattern of `data` has "train-" in it, of which evaluation makes `evaluation_split`.
  TrainOptions defaults;
  std::string evaluation_split = "test-";
  std::vector<std::string> class_names = {};  ///< none: they are numbers
  /// Its records are pictures of any kind, of which options say what is made (src/app/picture_options.h); schema and
  /// decoder of the defaults stand for them until those are known.
  bool of_pictures = false;
  /// Its images are colour photographs: it has --distort and --test-time-augmentation; they are standardised, so that
  /// it has no --pixel-scale.
  bool distorts = false;
  /// --decay-steps when not given, from the batch size per tower and the number of towers; nothing:
  /// decay_steps_without_rule.
  std::int64_t (*decay_steps)(std::int64_t batch_size, int tower_count) = nullptr;
};

/// The networks' names, in their order.
std::vector<std::string> network_names(const ProgramSpec& program_spec);
/// A line for each network: its name, parameters, and operations a sample of `image`. `outputs`: of each network.
std::string network_list(const ProgramSpec& program_spec, const ImageShape& image, std::int64_t outputs);
/// The network of that name, which is one of them.
MakeNetwork network_named(const ProgramSpec& program_spec, const std::string& name);

/// What mnist_train and mnist_eval are.
ProgramSpec mnist_program();
/// What cifar10_train and cifar10_eval are.
ProgramSpec cifar10_program();
/// What image_train and image_eval are.
ProgramSpec image_program();

}  // namespace carillon
