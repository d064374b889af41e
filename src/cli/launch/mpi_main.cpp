#include "src/cli/launch/mpi_main.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <optional>

#include "carillon/core/version.h"
#include "src/cli/launch/ranks.h"
#include "src/core/process.h"
#include "src/core/text.h"
#include "src/train/control/agreement.h"
#include "src/train/control/launcher_watch.h"
#include "src/train/control/stop_signal.h"

namespace carillon {
namespace {

/// Appends the line to the file that the environment variable names, with a line end. Returns false if the file does
/// not exist, for example on another host, or cannot be written.
bool append_for_launcher(const char* variable, std::string line) {
  line += '\n';
  const char* const path = std::getenv(variable);
  const int file = path != nullptr ? open(path, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;
  if (file < 0) return false;
  const bool done = write(file, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  close(file);
  return done;
}

bool report_to_launcher(ExitCode code) {
  return append_for_launcher(code_file_variable, std::to_string(static_cast<int>(code)));
}

/// Ends this rank without MPI_Finalize, which would not return.
[[noreturn]] void end_without_mpirun(const std::string& program, const Mpi* mpi, ExitCode code) {
  if (code == ExitCode::stopped) {  // USR1 of the LauncherWatch
    code = ExitCode::lost_rank;
    if (mpi != nullptr && mpi->rank() == 0) {
      print_error(program, mpi, "mpirun has ended; the last step is saved: the same command resumes", code);
    }
  }
  std::_Exit(static_cast<int>(code));
}

}  // namespace

void print_error(std::string_view program, const Mpi* mpi, std::string_view message, ExitCode code) {
  const std::string shown = printable(message);
  const std::string line = mpi ? fmt::format("{}: rank {} on {}: {}", program, mpi->rank(), mpi->host(), shown)
                               : fmt::format("{}: {}", program, shown);
  print_text(STDERR_FILENO, line + '\n');
  append_for_launcher(error_file_variable, line);
  report_to_launcher(code);
}

ExitCode abort_on_own_error(const Mpi& mpi, std::string_view program, const std::function<ExitCode()>& body) {
  if (mpi.size() == 1) return body();
  const auto end_all = [&](const char* message, ExitCode code) {
    print_error(program, &mpi, message, code);
    mpi.abort(code);
  };
  try {
    return body();
  } catch (const PeerFailed&) {
    throw;
  } catch (const SharedError&) {
    throw;
  } catch (const Error& error) {
    end_all(error.what(), error.code());
  } catch (const std::bad_alloc&) {
    end_all("out of memory", ExitCode::failed);
  } catch (const std::exception& error) {
    end_all(error.what(), ExitCode::failed);
  }
  return ExitCode::failed;  // not reached: end_all does not return
}

ExitCode abort_on_own_error(const Mpi& mpi, std::string_view program, StallDetector& stall_detector,
                            const std::function<ExitCode()>& body) {
  return abort_on_own_error(mpi, program, [&] {
    try {
      return body();
    } catch (const PeerFailed& peer) {
      stall_detector.mark_failure(peer.code());
      throw;
    } catch (const Error& error) {
      stall_detector.mark_failure(error.code());
      throw;
    } catch (...) {
      stall_detector.mark_failure(ExitCode::failed);
      throw;
    }
  });
}

int mpi_main(const std::string& program, int argc, char** argv, const std::function<ExitCode(const Mpi&)>& body) {
  flush_denormals();              // before other threads start: they inherit the mode
  std::signal(SIGPIPE, SIG_IGN);  // a closed stdout must not end a training
  ignore_file_size_signal();
  open_standard_descriptors();
  catch_end_of_run();
  watch_launcher();
  std::optional<Mpi> mpi;
  ExitCode code = ExitCode::failed;
  try {
    mpi.emplace(&argc, &argv);
    keep_signals_from_computation();
    // Other programs make other collective calls, and other builds may round differently.
    require_equal_on_all_ranks(*mpi, {{"the program and its build", version_line(program)}});
    code = abort_on_own_error(*mpi, program, [&] { return body(*mpi); });
  } catch (const PeerFailed& peer) {
    code = peer.code();
  } catch (const Error& error) {
    code = error.code();
    print_error(program, mpi ? &*mpi : nullptr, error.what(), code);
  } catch (const std::bad_alloc&) {
    print_error(program, mpi ? &*mpi : nullptr, "out of memory", code);
  } catch (const std::exception& error) {
    print_error(program, mpi ? &*mpi : nullptr, error.what(), code);
  }
  finish_watch();
  std::fflush(stdout);
  if (mpirun_has_ended()) end_without_mpirun(program, mpi ? &*mpi : nullptr, code);
  // mpirun would treat any exit code other than 0 as a failure and print ten lines about it.
  const bool is_reported = code == ExitCode::stopped && report_to_launcher(code);
  const int exit_code = is_reported ? 0 : static_cast<int>(code);
  // MPI_Finalize does not return if another rank has ended.
  constexpr double after_stop_seconds = 20.0, after_error_seconds = 3.0;
  if (code != ExitCode::done)
    exit_after(code == ExitCode::stopped ? after_stop_seconds : after_error_seconds, exit_code);
  return exit_code;
}

}  // namespace carillon
