// Manual: what a program says of itself, as data: of which its man page and its completion in bash are made.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace carillon {

struct ManualOption {
  std::string name;                       ///< without its dashes
  std::string value;                      ///< what stands for its value, "N"; empty: it takes none
  std::string text;                       ///< what it decides
  std::string default_value;              ///< its value when it is not given; empty: none to be named
  std::vector<std::string> choices = {};  ///< the values there are; none: any
};

struct ManualGroup {
  std::string heading;  ///< may be empty, of the first
  std::vector<ManualOption> options;
};

struct ExitStatus {
  int code;
  std::string meaning;
};

struct Manual {
  std::string program;
  std::string purpose;                ///< in a line: "Trains a network on MNIST"
  std::vector<std::string> synopses;  ///< how it is called, a line each
  std::string description;            ///< kept as its lines are
  std::vector<ManualGroup> groups;
  std::vector<std::string> words = {};  ///< that may stand in the first argument's place: commands, formats
  std::vector<ExitStatus> exit_statuses;
};

/// All of it, for --help; of each option "  --name VALUE  text [choices] (default)", texts in a
/// column of their own.
std::string help_text(const Manual& manual);
/// The page in section 1, in man's macros (man 7 man).
std::string man_page(const Manual& manual);
/// A completion for bash: of option names, of the values of those that have choices, and of files elsewhere.
std::string bash_completion(const Manual& manual);

/// Whether the command line is `PROGRAM --document man` or `--document bash`, with which the installation makes those
/// files: prints that to stdout then.
bool print_document(int argc, const char* const* argv, const std::function<Manual()>& manual);

}  // namespace carillon
