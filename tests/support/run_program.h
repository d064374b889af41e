// Running the built programs as a user does.
#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <string>

namespace carillon {

struct Outcome {
  int code;
  std::string output;  ///< stdout and stderr
};

/// `command`: the program's name and its arguments, for a shell. `launcher`: what starts it, such as "mpirun -np 2 ".
inline Outcome run_program(const std::string& command, const std::string& launcher = "") {
  FILE* pipe = ::popen((launcher + CARILLON_PROGRAMS + "/" + command + " 2>&1").c_str(), "r");
  std::string output;
  char buffer[4096];
  for (std::size_t bytes; (bytes = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) output.append(buffer, bytes);
  const int status = ::pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, output};
}

}  // namespace carillon
