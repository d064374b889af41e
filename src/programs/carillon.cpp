// carillon: trains on a folder of pictures with one command, and works on the result. It starts the other programs.
//
//   carillon train pictures
//   carillon predict runs/pictures holiday
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>

#include "carillon/core/error.h"
#include "carillon/core/single_process_main.h"
#include "src/app/version_text.h"
#include "src/core/text.h"
#include "src/launch/commands.h"
#include "src/processes/child_process.h"

namespace carillon {
namespace {

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
    Command{"doctor", "[OPTION...]", "prints versions and paths, and checks this machine", "image_train --preflight",
            doctor_command}};

std::string command_table() {
  std::string lines =
      "RUN is a train directory or a checkpoint. The commands start these programs and pass other options "
      "on to\nthem; each has its own --help and man page:\n\n";
  for (const Command& command : commands) {
    lines += fmt::format("{:<8}  {} ({})\n", command.name, command.purpose, command.programs);
  }
  lines.pop_back();
  return lines;
}

/// For a command that has no options of its own.
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
             : fmt::format("Options are passed on to one of {}, which suits the place. Each has its own --help.",
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
                                  {74, "I/O error"},
                                  {75, "stopped after a checkpoint: the same command continues"}}};
  for (const Command& command : commands) {
    manual.synopses.push_back(fmt::format("carillon {} {}", command.name, command.synopsis));
    manual.words.push_back(command.name);
  }
  return manual;
}

int carillon_main(int argc, char** argv) {
  if (print_document(argc, argv, manual)) return 0;
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty() || words.front() == "--help" || words.front() == "-h" || words.front() == "help") {
    fmt::print("{}", help_text(manual()));
    if (!words.empty()) return 0;
    std::fflush(stdout);  // before the error line
    fail(ExitCode::usage, "name a command, for example: carillon train FOLDER");
  }
  if (words.front() == "--version") {
    fmt::print("{}", version_text("carillon"));
    return 0;
  }
  const auto found = std::ranges::find(commands, words.front(), &Command::name);
  if (found == commands.end()) {
    fail(ExitCode::usage,
         "'{}' is not a command: train, evaluate, predict, inspect, export, report or doctor (see --help)",
         printable(words.front()));
  }
  const bool asks_help = words.size() > 1 && (words[1] == "--help" || words[1] == "-h");
  if (asks_help && found->run != train_command) {
    fmt::print("{}", command_help(*found));
    return 0;
  }
  hold_stop_signals();
  return found->run({words.begin() + 1, words.end()});
}

}  // namespace
}  // namespace carillon

int main(int argc, char** argv) {
  return carillon::single_process_main("carillon", [&] { return carillon::carillon_main(argc, argv); });
}
