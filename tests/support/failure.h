// Failure: an error as a value, so that tests can compare it.
#pragma once

#include <functional>
#include <string>

#include "carillon/core/error.h"

namespace carillon {

/// The code and text of the Error that an action throws; code `done` if it throws none.
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
