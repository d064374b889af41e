// Manual: the description of a program as data. This file makes --help, the man page, the bash completion and the
// option reference from the description. It also makes the line of --version.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace carillon {

struct ManualOption {
  std::string name;                       ///< name of the option without dashes
  std::string value;                      ///< placeholder for the option's value, "N"; empty: the option takes no value
  std::string text;                       ///< help text
  std::string default_value;              ///< default as text; empty: --help shows none
  std::vector<std::string> choices = {};  ///< permitted values; empty: any value
};

struct ManualGroup {
  std::string heading;  ///< name of the group; may be empty for the first group
  std::vector<ManualOption> options;
};

struct ExitStatus {
  int code;
  std::string meaning;
};

struct Manual {
  std::string program;
  std::string purpose;                ///< purpose of the program in one line: "Trains a network on MNIST"
  std::vector<std::string> synopses;  ///< usage; one line each
  std::string description;            ///< text that keeps its line breaks
  std::vector<ManualGroup> groups;
  std::vector<std::string> words = {};  ///< permitted first arguments of the program, such as commands or formats
  std::vector<ExitStatus> exit_statuses;
};

/// Returns the text of --help. Each option is a line "  --name VALUE  text [choices] (default)", and all texts begin in
/// the same column.
std::string help_text(const Manual& manual);
/// Returns the man page for section 1, in man macros (man 7 man).
std::string man_page(const Manual& manual);
/// Returns a script for bash, which completes option names and the values of options with choices. For the values of
/// all other options, it completes file names.
std::string bash_completion(const Manual& manual);

/// Returns Markdown: purpose, usage and description, a table of options for each group, and a table of the exit codes.
std::string markdown_page(const Manual& manual);

/// If the command line is `PROGRAM --document man`, `--document bash` or `--document markdown`, prints that document to
/// stdout and returns true. The installation and tests/structure/check_option_reference.py use it.
bool print_document(int argc, const char* const* argv, const std::function<Manual()>& manual);

/// Returns the first line of --version: "mnist_train (Carillon) 0.1.0, commit 2a2e21a123".
std::string version_line(std::string_view program);

}  // namespace carillon
