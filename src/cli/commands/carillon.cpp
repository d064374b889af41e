// carillon: one program for all commands. The first word chooses the command. A link to this program with the name of a
// command runs that command.
//
//   carillon train pictures
//   carillon predict runs/pictures holiday
//   carillon mnist_train --data 'data/mnist/train-*'        the same as mnist_train --data 'data/mnist/train-*'
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "carillon/cli/program_spec.h"
#include "carillon/core/error.h"
#include "src/cli/commands/commands.h"
#include "src/cli/launch/mpi_main.h"
#include "src/core/process.h"
#include "src/core/text.h"

namespace carillon {
namespace {

/// A command of `carillon`, for help texts.
struct Command {
  std::string name;
  std::string synopsis;  ///< arguments of the command: "FOLDER [OPTION...]"
  std::string purpose;   ///< purpose of the command, one line
  std::string programs;  ///< programs to which the command passes options: "image_train, image_eval"
  int (*run)(const std::vector<std::string>& words);
};

const std::array commands{
    Command{"train", "FOLDER [OPTION...]", "trains a network on a folder of pictures, and evaluates it",
            "tfrecord_convert, image_train, image_eval", train_command},
    Command{"evaluate", "RUN [OPTION...]", "prints the accuracy on the held-out pictures",
            "image_eval, mnist_eval, cifar10_eval", evaluate_command},
    Command{"predict", "RUN PICTURE_OR_FOLDER...", "prints the classes of pictures", "carillon_predict",
            predict_command},
    Command{"inspect", "RUN_OR_RECORDS", "describes a training, a checkpoint, or converted pictures",
            "checkpoint_tool, tfrecord_inspect", inspect_command},
    Command{"export", "RUN --onnx FILE", "writes the network for other programs", "checkpoint_tool", export_command},
    Command{"report", "RUN", "prints the evaluations, the accuracy by class, and confused classes",
            "image_eval, mnist_eval, cifar10_eval", report_command},
    Command{"launch", "--program PROGRAM -- COMMAND...", "runs mpirun or srun for the job scripts, with restarts",
            "any program", launch_command},
    Command{"doctor", "[OPTION...]", "prints versions and paths, and checks this machine", "image_train --preflight",
            doctor_command}};

/// A program with its own options. src/CMakeLists.txt makes a link with its name.
struct Program {
  std::string_view name;
  std::string_view purpose;            ///< purpose of the program, one line
  int (*main)(int argc, char** argv);  ///< the first argument is the program's name
};

constexpr std::array programs{
    Program{"mnist_train", "trains a network on MNIST",
            [](int argc, char** argv) { return training_main("mnist_train", mnist_program(), argc, argv); }},
    Program{"mnist_eval", "evaluates a checkpoint of mnist_train",
            [](int argc, char** argv) { return evaluation_main("mnist_eval", mnist_program(), argc, argv); }},
    Program{"cifar10_train", "trains a network on CIFAR-10",
            [](int argc, char** argv) { return training_main("cifar10_train", cifar10_program(), argc, argv); }},
    Program{"cifar10_eval", "evaluates a checkpoint of cifar10_train",
            [](int argc, char** argv) { return evaluation_main("cifar10_eval", cifar10_program(), argc, argv); }},
    Program{"image_train", "trains a network on records of your pictures",
            [](int argc, char** argv) { return training_main("image_train", image_program(), argc, argv); }},
    Program{"image_eval", "evaluates a checkpoint of image_train",
            [](int argc, char** argv) { return evaluation_main("image_eval", image_program(), argc, argv); }},
    Program{"carillon_predict", "predicts the classes, labels or numbers of pictures", carillon_predict_main},
    Program{"checkpoint_tool", "inspects, compares, averages and exports checkpoints", checkpoint_tool_main},
    Program{"tfrecord_convert", "converts pictures, or a published data set, to TFRecord files", tfrecord_convert_main},
    Program{"tfrecord_inspect", "summarises TFRecord files", tfrecord_inspect_main}};

/// Returns the program with this name, or null if there is none.
const Program* find_program(std::string_view name) {
  const auto found = std::ranges::find(programs, name, &Program::name);
  return found == programs.end() ? nullptr : &*found;
}

std::string command_table() {
  std::string lines =
      "RUN is a train directory or a checkpoint. These commands pass other options on to the programs in "
      "parentheses:\n\n";
  for (const Command& command : commands) {
    lines += fmt::format("{:<8}  {} ({})\n", command.name, command.purpose, command.programs);
  }
  lines += "\nThe programs are commands, too. Each has its own options, --help and man page:\n\n";
  for (const Program& program : programs) lines += fmt::format("{:<16}  {}\n", program.name, program.purpose);
  lines.pop_back();
  return lines;
}

/// Returns the help of a command that only passes options to other programs.
std::string command_help(const Command& command) {
  std::string places;
  if (command.synopsis.starts_with("RUN")) places = "RUN is a train directory or a checkpoint. ";
  if (command.synopsis.starts_with("RUN_OR_RECORDS")) {
    places = "RUN_OR_RECORDS is a train directory, a checkpoint, a TFRecord file, or a folder of them. ";
  }
  std::string purpose = command.purpose;
  purpose.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(purpose.front())));
  const bool is_one = command.programs.find(',') == std::string::npos;
  const std::string program = command.programs.substr(0, command.programs.find(' '));
  const std::string passed =
      is_one ? fmt::format("Options are passed on to {}: see {} --help.", command.programs, program)
             : fmt::format(
                   "Options are passed on to the program that suits the place: one of {}. Each has its own --help.",
                   command.programs);
  return fmt::format("Usage: carillon {} {}\n\n{}.\n{}{}\n", command.name, command.synopsis, purpose, places, passed);
}

Manual manual() {
  Manual manual{.program = "carillon",
                .purpose = "Trains a network on a folder of pictures with one command",
                .synopses = {},
                .description = command_table(),
                .groups = {{"",
                            {{.name = "help", .text = "print this help and exit"},
                             {.name = "version", .text = "print the version and exit"}}},
                           train_options()},
                .exit_statuses = {{0, "done"},
                                  {64, "bad usage"},
                                  {65, "damaged or unsuitable picture, record or checkpoint"},
                                  {66, "input missing"},
                                  {69, "requested device absent"},
                                  {70, "the training failed"},
                                  {71, "a rank was lost or hangs: the same command continues"},
                                  {74, "I/O error"},
                                  {75, "stopped after a checkpoint: the same command continues"}}};
  for (const Command& command : commands) {
    manual.synopses.push_back(fmt::format("carillon {} {}", command.name, command.synopsis));
    manual.words.push_back(command.name);
  }
  for (const Program& program : programs) manual.words.emplace_back(program.name);
  return manual;
}

int carillon_main(int argc, char** argv) {
  if (print_document(argc, argv, manual)) return 0;
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty() || words.front() == "--help" || words.front() == "-h" || words.front() == "help") {
    fmt::print("{}", help_text(manual()));
    if (!words.empty()) return 0;
    std::fflush(stdout);  // print the output first, so that the error line is the last line
    fail(ExitCode::usage, "name a command, for example: carillon train FOLDER");
  }
  if (words.front() == "--version") {
    fmt::print("{}", version_text("carillon"));
    return 0;
  }
  const auto found = std::ranges::find(commands, words.front(), &Command::name);
  if (found == commands.end()) {
    fail(ExitCode::usage,
         "'{}' is not a command: train, evaluate, predict, inspect, export, report, doctor, or a program's name (see "
         "--help)",
         printable(words.front()));
  }
  const bool asks_help = words.size() > 1 && (words[1] == "--help" || words[1] == "-h");
  const bool has_own_help = found->run == train_command || found->run == launch_command;
  if (asks_help && !has_own_help) {
    fmt::print("{}", command_help(*found));
    return 0;
  }
  return found->run({words.begin() + 1, words.end()});
}

}  // namespace

int run_program(const std::string& name, const std::vector<std::string>& words) {
  const Program* const program = find_program(name);
  check(program != nullptr, "there is no program of this name");
  std::vector<std::string> all = joined({name}, words);
  std::vector<char*> arguments;
  for (std::string& word : all) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  return program->main(static_cast<int>(all.size()), arguments.data());
}

int run_carillon(int argc, char** argv) {
  bound_spinning();
  const std::string own_name = argc > 0 ? std::filesystem::path(argv[0]).filename().string() : "";
  if (const Program* const program = find_program(own_name)) return program->main(argc, argv);
  if (const Program* const program = argc > 1 ? find_program(argv[1]) : nullptr) {
    return program->main(argc - 1, argv + 1);
  }
  return single_process_main("carillon", [&] { return carillon_main(argc, argv); });
}

}  // namespace carillon
