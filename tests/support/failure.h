// Failure: an Error as a value that tests can compare.
#pragma once

#include <functional>
#include <string>

#include "carillon/core/error.h"

namespace carillon {

/// The exit code and the text of the Error that an action throws. If the action throws no Error, the code is `done` and
/// the text is empty.
struct Failure {
  ExitCode code = ExitCode::done;
  std::string text;
};

inline Failure failure_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {};
}

}  // namespace carillon
