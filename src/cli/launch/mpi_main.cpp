#include "src/cli/launch/mpi_main.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <optional>
#include <utility>

#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "src/checkpoint/checkpoint.h"
#include "src/cli/launch/ranks.h"
#include "src/core/file_tools.h"
#include "src/core/manual.h"
#include "src/core/process.h"
#include "src/core/text.h"
#include "src/report/console.h"
#include "src/train/control/agreement.h"
#include "src/train/control/stop_signal.h"

namespace carillon {

void introduce(OptionSet& set, const std::string& program) {
  set.set_version(version_text(program));
  const std::string ranks = fmt::format("each rank uses one GPU: start one rank per GPU with mpirun -np N {}", program);
  for (const char* name : {"num-gpus", "gpus"}) set.explain(name, ranks);
  set.explain("num-workers", "use --decode-threads");
  set.explain("data-dir", "name TFRecord files with --data; tfrecord_convert makes them from other formats");
  set.explain("checkpoint-dir", program.ends_with("_eval") ? "use --checkpoint" : "use --train-dir");
  set.explain("use-fp16", "use --precision bf16");
  if (!program.ends_with("_eval")) return;
  set.explain("eval-data", "use --data");
  set.explain("eval-dir", "results go to stdout, and with --report to a file");
  set.explain("num-examples", "all records are evaluated");
  const std::string once = "this program evaluates one checkpoint; a training evaluates with --eval-data";
  for (const char* name : {"run-once", "eval-interval-secs"}) set.explain(name, once);
}

bool parse_on_all_ranks(OptionSet& set, int argc, char** argv, const Mpi& mpi) {
  bool proceeds = false;
  mpi.run_on_all([&] { proceeds = set.parse(argc, argv); });
  // Compare --help first: on a rank that answers --help, the other options are not set.
  require_equal_on_all_ranks(mpi, {{"help", !proceeds}});
  require_equal_on_all_ranks(mpi, set.values().fields());
  if (mpi.rank() != 0) return proceeds;
  if (!proceeds) print_text(STDOUT_FILENO, set.answer());
  for (const std::string& line : set.misspelt_variables()) print_warning(line);
  return proceeds;
}

void check_default_data(const OptionSet& set, const std::vector<std::string>& patterns) {
  if (set.given("data")) return;
  try {
    static_cast<void>(expand_file_patterns(patterns));
  } catch (const Error& error) {
    if (error.code() != ExitCode::no_input) throw;
    const std::filesystem::path directory = std::filesystem::path(patterns.front()).parent_path();
    const std::string format = directory.filename().string();
    const bool is_published = format == "mnist" || format == "cifar10";
    fail(ExitCode::no_input, "{}: name them with --data, or make them with tfrecord_convert {} {} --output {}",
         error.what(), format, is_published ? "--download" : "--input FOLDER", directory.string());
  }
}

StallDetectorSettings stall_detector_settings(double stall_timeout, const Device& device, const Mpi& mpi,
                                              const std::string& program) {
  StallDetectorSettings settings;
  if (stall_timeout > 0.0) settings.stall_seconds = stall_timeout;
  settings.program = program;
  settings.waits_unseen = device.kind() != DeviceKind::cpu;
  settings.end_run = [&mpi, program](const std::string& line) {
    abort_on_own_error(mpi, program, [&]() -> ExitCode { fail(ExitCode::lost_rank, "{}", line); });
  };
  settings.should_save_alone = should_save_alone;
  settings.print = [&mpi, program](const std::string& line) { print_error(program, &mpi, line, ExitCode::lost_rank); };
  return settings;
}

std::string version_text(const std::string& program) {
  std::vector<std::string> libraries = comm_libraries();
  for (std::string& library : device_libraries()) libraries.push_back(std::move(library));
  libraries.push_back(checkpoint_library());
  const bool uses_cuda =
      std::ranges::any_of(libraries, [](std::string_view name) { return name.starts_with("CUDA "); });
  return fmt::format("{}\n{}{}\n", version_line(program), fmt::join(libraries, ", "),
                     uses_cuda ? "" : "; without CUDA");
}

namespace {

/// Appends `line` and a line end to the file that the environment variable `variable` names. Returns false if the file
/// does not exist, for example on another host, or cannot be written.
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
  if (code == ExitCode::stopped) {  // the USR1 signal of watch_launcher stopped this process
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

namespace {

/// Prints the line for an exception that ends the program, and returns the exit code.
ExitCode print_exception(std::string_view program, const Mpi* mpi, const std::exception& exception) {
  const auto* const error = dynamic_cast<const Error*>(&exception);
  const ExitCode code = error != nullptr ? error->code() : ExitCode::failed;
  const bool lacks_memory = dynamic_cast<const std::bad_alloc*>(&exception) != nullptr;
  print_error(program, mpi, lacks_memory ? "out of memory" : exception.what(), code);
  return code;
}

}  // namespace

ExitCode abort_on_own_error(const Mpi& mpi, std::string_view program, const std::function<ExitCode()>& body) {
  if (mpi.size() == 1) return body();
  try {
    return body();
  } catch (const PeerFailed&) {
    throw;
  } catch (const SharedError&) {
    throw;
  } catch (const std::exception& error) {
    const ExitCode code = print_exception(program, &mpi, error);
    mpi.abort(code);
    return code;
  }
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
  flush_denormals();              // called before other threads start, so that they inherit the mode
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
    // Other programs make other collective calls, and other builds may round in another way.
    require_equal_on_all_ranks(*mpi, {{"the program and its build", version_line(program)}});
    code = abort_on_own_error(*mpi, program, [&] { return body(*mpi); });
  } catch (const PeerFailed& peer) {
    code = peer.code();
  } catch (const std::exception& error) {
    code = print_exception(program, mpi ? &*mpi : nullptr, error);
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
