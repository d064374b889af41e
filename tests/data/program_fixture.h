// Fixture that runs the built programs as a user does.
#pragma once

#include <gmock/gmock.h>

#include <algorithm>

#include "tests/data/fixtures.h"
#include "tests/support/run_program.h"

namespace carillon {

class ProgramFixture : public ScratchTest {
 protected:
  /// `launcher`: text before the command, such as "mpirun -np 2 ".
  static Outcome run(const std::string& command, const std::string& launcher = "") {
    return run_program(command, launcher);
  }

  /// Expects that the program ends with `code` and prints one line, which contains `text`.
  static void expect_failure(const std::string& command, ExitCode code, const std::string& text) {
    expect_one_line(run(command), code, text);
  }
};

}  // namespace carillon
