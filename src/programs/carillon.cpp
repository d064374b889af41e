// carillon: trains on a folder of pictures with one command, and works on the result. It starts the other programs.
//
//   carillon train pictures
//   carillon predict runs/pictures holiday
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "carillon/core/error.h"
#include "carillon/core/single_process_main.h"
#include "src/app/version_text.h"
#include "src/core/printable.h"
#include "src/launch/commands.h"
#include "src/processes/child_process.h"

namespace carillon {
namespace {

const std::array commands{
    Command{"train", "FOLDER [OPTION...]", "trains a network on a folder of pictures, and evaluates it", train_command},
    Command{"evaluate", "RUN [OPTION...]", "prints the accuracy on the held-out pictures", evaluate_command},
    Command{"predict", "RUN PICTURE_OR_FOLDER...", "prints the classes of pictures", predict_command},
    Command{"inspect", "RUN_OR_RECORDS", "describes a training, a checkpoint, or converted pictures", inspect_command},
    Command{"export", "RUN --onnx FILE", "writes the network for other programs", export_command},
    Command{"report", "RUN", "prints the evaluations, the accuracy by class, and confused classes", report_command},
    Command{"doctor", "[OPTION...]", "prints versions and paths, and checks this machine", doctor_command}};

std::string command_table() {
  std::string lines =
      "RUN is a train directory or a checkpoint. The commands start these programs and pass other options "
      "on to\nthem; each has its own --help and man page:\n\n";
  constexpr std::array programs{"tfrecord_convert, image_train, image_eval",
                                "image_eval",
                                "carillon_predict",
                                "checkpoint_tool, tfrecord_inspect",
                                "checkpoint_tool",
                                "image_eval",
                                "image_train --preflight"};
  for (std::size_t i = 0; i < commands.size(); ++i) {
    lines += fmt::format("{:<8}  {} ({})\n", commands[i].name, commands[i].purpose, programs[i]);
  }
  lines.pop_back();
  return lines;
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
    return words.empty() ? static_cast<int>(ExitCode::usage) : 0;
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
    fmt::print("{}", help_text(manual()));
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
