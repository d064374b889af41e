// single_process_main: the main function of programs without MPI. Prints one line for an error and returns its exit
// code.
#pragma once

#include <functional>
#include <string_view>

namespace carillon {

/// Runs `body` and returns its exit code. An exception prints one line `<name>: <what>` to stderr and returns the
/// Error's exit code, or 70 for other exceptions. If stdout cannot be written (a full disk), returns 74.
int single_process_main(std::string_view name, const std::function<int()>& body);

}  // namespace carillon
