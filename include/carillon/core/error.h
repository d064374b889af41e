// Error: one exception type with the exit code of the program and a one-line message.
//
// The message names the faulty object (file, offset, record, option, rank), the expected value and the value found. The
// main function of a program with MPI (carillon/cli/program_spec.h) catches the Error once, adds rank and host, and
// ends all ranks. In other programs, single_process_main prints the message.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace carillon {

/// Exit codes of every program, after BSD's sysexits.h.
enum class ExitCode : int {
  done = 0,
  usage = 64,      ///< the command line is wrong, or the ranks disagree on options or data
  data = 65,       ///< a record or checkpoint is damaged or unsuitable
  no_input = 66,   ///< an input file is missing
  no_device = 69,  ///< the requested device is missing
  failed = 70,     ///< the run failed, for example because a loss is not finite, or because of a bug
  lost_rank = 71,  ///< a rank's process has ended, or a rank hangs: start again to resume
  io = 74,         ///< the system refused to read or write
  stopped = 75,    ///< stopped by a signal or time limit after a checkpoint: start again to resume
};

class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& what) : std::runtime_error(what), code_(code) {}
  ExitCode code() const noexcept { return code_; }

 private:
  ExitCode code_;
};

/// A memory error: data have changed although no code wrote to them. Other data may also have changed, so the run must
/// not save its state.
class ChangedInMemory : public Error {
 public:
  using Error::Error;
};

/// Throws Error(code) with a formatted message.
template <typename... Args>
[[noreturn]] void fail(ExitCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

/// Throws Error(failed) with the source line if `holds` is false. Use it for contracts between parts of the program.
inline void check(bool holds, std::string_view what,
                  const std::source_location& where = std::source_location::current()) {
  if (!holds) fail(ExitCode::failed, "{} ({}:{})", what, where.file_name(), where.line());
}

/// Writes `text` to a descriptor, in one call if possible, so that lines of several ranks do not mix. Ignores errors: a
/// failure to print must not end the program.
void print_text(int descriptor, std::string_view text) noexcept;

/// Returns the text of the errno value `number`. Thread-safe.
std::string errno_text(int number);

/// The main function of programs without MPI. Runs `body` and returns its exit code. If `body` throws, prints one line
/// `<name>: <what>` to stderr, and returns the exit code of the Error, or 70 for other exceptions. If stdout cannot be
/// written, for example because a disk is full, returns 74.
int single_process_main(std::string_view name, const std::function<int()>& body);

}  // namespace carillon
