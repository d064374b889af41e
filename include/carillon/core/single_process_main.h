// single_process_main: what surrounds the body of every single-process program (no MPI): one line for an error, its
// exit code.
#pragma once

#include <functional>
#include <string_view>

namespace carillon {

/// Runs `body` and returns its exit code. What it throws becomes one line `<name>: <what>` on stderr and the Error's
/// exit code, 70 for any other exception. Output that stdout refuses (a full disk) is an error of code 74.
int single_process_main(std::string_view name, const std::function<int()>& body);

}  // namespace carillon
