#include "carillon/core/error.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <system_error>

#include "src/core/process.h"
#include "src/core/text.h"

namespace carillon {

void print_text(int descriptor, std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

std::string errno_text(int number) { return std::generic_category().message(number); }

namespace {

int report(std::string_view name, ExitCode code, std::string_view what) {
  print_text(STDERR_FILENO, fmt::format("{}: {}\n", name, printable(what)));
  return static_cast<int>(code);
}

}  // namespace

int single_process_main(std::string_view name, const std::function<int()>& body) {
  open_standard_descriptors();
  ignore_file_size_signal();
  try {
    const int code = body();
    flush_stdout();
    return code;
  } catch (const Error& error) {
    return report(name, error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return report(name, ExitCode::failed, "out of memory");
  } catch (const std::system_error& error) {  // reached, for example, if stdout cannot be written
    // The exit code that a shell reports after SIGPIPE. Programs with MPI ignore SIGPIPE.
    if (error.code() == std::errc::broken_pipe) return 128 + SIGPIPE;
    return report(name, ExitCode::io, error.what());
  } catch (const std::exception& error) {
    return report(name, ExitCode::failed, error.what());
  }
}

}  // namespace carillon
