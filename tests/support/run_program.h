// Runs the built programs as a user would.
#pragma once

#include <gmock/gmock.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "carillon/core/error.h"

namespace carillon {

struct Outcome {
  int code;
  std::string output;  ///< stdout and stderr together
};

/// Runs a program. `command`: the program's name and arguments, in shell syntax. `launcher`: text before the command,
/// such as "mpirun -np 2 ".
inline Outcome run_program(const std::string& command, const std::string& launcher = "") {
  FILE* pipe = ::popen((launcher + CARILLON_PROGRAMS + "/" + command + " 2>&1").c_str(), "r");
  std::string output;
  char buffer[4096];
  for (std::size_t bytes; (bytes = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) output.append(buffer, bytes);
  const int status = ::pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, output};
}

/// Expects that the program ended with exit code `code` and printed one line, which contains `text`.
inline void expect_one_line(const Outcome& outcome, ExitCode code, const std::string& text) {
  EXPECT_EQ(outcome.code, static_cast<int>(code)) << outcome.output;
  EXPECT_THAT(outcome.output, ::testing::HasSubstr(text));
  EXPECT_EQ(std::ranges::count(outcome.output, '\n'), 1) << outcome.output;
}

}  // namespace carillon
