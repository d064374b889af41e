// The commands of the program `carillon`: its own commands, and the programs that are links to `carillon`.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "carillon/cli/program_spec.h"
#include "src/checkpoint/checkpoint.h"
#include "src/cli/options/option_set.h"
#include "src/cli/options/picture_options.h"
#include "src/comm/mpi/mpi.h"
#include "src/core/manual.h"
#include "src/train/preflight/step_time.h"

namespace carillon {

/// Runs the command that the name of this process, or its first argument, chooses. Returns the exit code.
int run_carillon(int argc, char** argv);

/// Runs a program, such as "image_eval", in this process. `words`: the words after its name. Returns its exit code.
int run_program(const std::string& name, const std::vector<std::string>& words);

// The main functions of programs. Each returns the exit code. The first argument is the program's name.
int carillon_predict_main(int argc, char** argv);
int checkpoint_tool_main(int argc, char** argv);
int tfrecord_convert_main(int argc, char** argv);
int tfrecord_inspect_main(int argc, char** argv);

/// Runs tfrecord_convert. `words`: the words after its name. Once `stops` returns true, a conversion of pictures
/// removes its files and ends with exit code 75, without a message.
int convert_until(const std::vector<std::string>& words, const std::function<bool()>& stops);

// The commands of `carillon`. Each command receives the words after its name and returns the exit code.

/// Converts pictures, chooses a training, trains and evaluates.
int train_command(const std::vector<std::string>& words);
/// Returns the options that only train_command has; --help lists them.
ManualGroup train_options();

/// Prints the accuracy of the network of a run on the run's evaluation pictures.
int evaluate_command(const std::vector<std::string>& words);
/// Predicts the classes of pictures with a run.
int predict_command(const std::vector<std::string>& words);
/// Describes a run, a checkpoint, or record files.
int inspect_command(const std::vector<std::string>& words);
/// Writes the network of a run as ONNX.
int export_command(const std::vector<std::string>& words);
/// Summarises a run: its length, its evaluations, and the classes that the network confuses.
int report_command(const std::vector<std::string>& words);
/// Runs a program under mpirun or srun for the job scripts, and restarts it after a lost rank.
int launch_command(const std::vector<std::string>& words);
/// Prints versions and paths, and checks this machine.
int doctor_command(const std::vector<std::string>& words);

/// A program that evaluates checkpoints.
struct EvaluationProgram {
  std::string name;  ///< "image_eval"
  ProgramSpec spec;
};

/// Returns the program that evaluates this checkpoint. Errors: data (the checkpoint has damaged picture options, or no
/// program of Carillon has its network).
EvaluationProgram evaluation_program(const LoadedCheckpoint& loaded);

/// Returns the options of image_train, with the defaults of that program. Parsing the result sets `options` and
/// `pictures`.
OptionSet image_train_options(TrainOptions& options, PictureOptions& pictures);

/// Checks the names and values of options in the same way as the evaluation program `program` does at its start.
/// Errors: usage.
void check_evaluation_options(const std::string& program, const ProgramSpec& program_spec,
                              const std::vector<std::string>& words);

// --model help: prints the networks of a program, and the time of one training step for each network.

/// Prints the list of networks on rank 0. All ranks measure at the same time, because they share caches and memory.
/// Collective. Errors: the errors of opening the device and of reading records.json.
void print_networks(const OptionSet& set, const ProgramSpec& program_spec, TrainOptions& options,
                    const PictureOptions& pictures, const Mpi& mpi);

/// Measures a training step of a network. Returns nullopt if no time is left for the measurement. Errors: see
/// measure_step.
using MeasureNetwork = std::function<std::optional<StepTime>(const NamedNetwork& network)>;

/// Returns a table with a line per network. Columns: name, parameters, and multiply-adds of the forward pass of one
/// sample. Three more columns show the training step that `measure` measured: samples, seconds, and samples per second.
/// If a network does not support the shape `image`, its line states the reason. `outputs`: see
/// NetworkSettings::outputs.
std::string network_list(const ProgramSpec& program_spec, const ImageShape& image, std::int64_t outputs,
                         const MeasureNetwork& measure);

}  // namespace carillon
