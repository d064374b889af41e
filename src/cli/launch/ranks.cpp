#include "src/cli/launch/ranks.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "src/comm/mpi/cpu_share.h"
#include "src/core/file_tools.h"
#include "src/core/resources.h"
#include "src/core/text.h"

namespace carillon {

namespace fs = std::filesystem;

fs::path programs_folder() { return fs::read_symlink("/proc/self/exe").parent_path(); }

std::string program_as_called(const std::string& program) {
  const fs::path own = program_invocation_name, file = programs_folder() / program;
  const bool is_in_path = !own.has_parent_path();
  const fs::path named = is_in_path ? find_in_path(program) : own.parent_path() / program;
  std::error_code absent;
  if (!fs::equivalent(named, file, absent)) return file.string();
  return is_in_path ? program : named.string();
}

int usable_cores() {
  const CpuTopology topology;
  return cores_within(cpu_quota(), topology.core_count(topology.allowed_cpus()));
}

namespace {

/// Returns the first line that `program --version` prints, or an empty text if the program fails or prints nothing.
std::string first_line_of(const fs::path& program) {
  const std::string command = shell_word(program.string()) + " --version 2>/dev/null </dev/null";
  FILE* const pipe = popen(command.c_str(), "re");
  if (pipe == nullptr) return {};
  std::string text;
  for (int c = 0; (c = std::fgetc(pipe)) != EOF;) text += static_cast<char>(c);
  return pclose(pipe) == 0 ? text.substr(0, text.find('\n')) : "";
}

}  // namespace

fs::path find_in_path(const std::string& name) {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    fs::path file = fs::path(folder.empty() ? "." : folder) / name;
    std::error_code error;
    if (fs::is_regular_file(file, error) && access(file.c_str(), X_OK) == 0) return file;
  }
  return {};
}

void require_mpirun(std::int64_t ranks) {
  if (!find_in_path("mpirun").empty()) return;
  fail(ExitCode::no_input, "--ranks {}: mpirun is not in PATH: install Open MPI (package openmpi-bin)", ranks);
}

void check_mpirun() {
  const fs::path mpirun = find_in_path("mpirun");
  if (mpirun.empty()) return;
  const std::string version = first_line_of(mpirun), library = comm_libraries().front();  // for example "Open MPI
                                                                                          // 4.1.4"
  const std::string number = library.substr(library.rfind(' ') + 1), major = number.substr(0, number.find('.') + 1);
  if (version.find("(Open MPI) " + major) != std::string::npos) return;
  fail(ExitCode::usage,
       "{} ({}) is not the mpirun of {}, which this program uses: put the folder of that mpirun first in PATH",
       mpirun.string(), version.empty() ? "it states no version" : version, library);
}

std::vector<std::string> Launch::command(const std::string& program, const std::vector<std::string>& options) const {
  std::vector<std::string> words;
  if (ranks > 1) {
    words = {"mpirun", "-np", std::to_string(ranks)};
    if (geteuid() == 0) words.emplace_back("--allow-run-as-root");  // for example in a container
    if (ranks > cores) {
      words.insert(words.end(), {"--oversubscribe", "--bind-to", "none"});
    } else {
      words.insert(words.end(), {"--map-by", fmt::format("slot:PE={}", cores / ranks), "--bind-to", "core"});
    }
  }
  words.push_back(program_as_called(program));
  words.insert(words.end(), options.begin(), options.end());
  return words;
}

ChildSettings Launch::settings() const {
  ChildSettings settings{.stop_signal = SIGUSR1, .death_signal = SIGUSR1};
  settings.is_mpirun = ranks > 1;
  constexpr const char* pause = "OMPI_MCA_odls_base_sigkill_timeout";  // length of each of mpirun's two pauses, in
                                                                       // seconds
  if (std::getenv(pause) == nullptr) settings.environment.push_back(std::string(pause) + "=15");
  // In a job of a batch system, mpirun would use the hosts of the job and count its tasks as slots.
  settings.environment.emplace_back("OMPI_MCA_ras=^slurm,tm,lsf,gridengine");
  settings.environment.emplace_back("OMPI_MCA_plm=^slurm,tm,lsf");
  settings.environment.push_back("CARILLON_RANKS=0");  // a rank must not start ranks
  return settings;
}

namespace {

/// A new folder. The destructor removes it at the end of the run.
class TemporaryFolder {
 public:
  /// `pattern`: path of the folder; ends in XXXXXX (mkdtemp).
  explicit TemporaryFolder(std::string pattern)
      : path_(mkdtemp(pattern.data()) == nullptr ? "" : pattern), removed_(path_) {}

  bool exists() const { return !path_.empty(); }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;  ///< empty: the system could not create the folder
  RemovedAtEnd removed_;
};

std::vector<std::string> lines_of(const fs::path& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

/// Returns the exit code of the run. `reported`: the exit codes in the order in which the ranks reported them. The
/// first error among them is the cause. `exit_code`: the exit code of mpirun. If mpirun hangs after its ranks have
/// ended, run_child ends it by a signal.
int code_of_run(int exit_code, const std::vector<std::string>& reported) {
  const std::string stopped = std::to_string(static_cast<int>(ExitCode::stopped));
  const auto error = std::ranges::find_if(reported, [&](const std::string& code) { return code != stopped; });
  if (exit_code != 0 && error != reported.end()) return std::atoi(error->c_str());
  const bool has_ended_well = exit_code == 0 || crash_signal(exit_code) != 0;
  return has_ended_well && !reported.empty() ? std::atoi(reported.front().c_str()) : exit_code;
}

}  // namespace

ChildResult run_launcher(const std::vector<std::string>& words, ChildSettings settings) {
  std::error_code unknown;
  const TemporaryFolder reports((fs::temp_directory_path(unknown) / "carillon-launch-XXXXXX").string());
  const fs::path errors = reports.path() / "errors", codes = reports.path() / "codes";
  if (reports.exists()) {
    for (const auto& [variable, file] : {std::pair(error_file_variable, errors), {code_file_variable, codes}}) {
      std::ofstream{file};  // the files must exist, because ranks append only to existing files
      settings.environment.push_back(fmt::format("{}={}", variable, file.string()));
    }
  }
  // If mpirun is killed, Open MPI's shared memory files remain. Therefore a temporary folder holds them.
  constexpr const char* messages_variable = "OMPI_MCA_btl_vader_backing_directory";
  std::optional<TemporaryFolder> messages;
  if (settings.is_mpirun && std::getenv(messages_variable) == nullptr) messages.emplace("/dev/shm/carillon-XXXXXX");
  if (messages && messages->exists()) {
    settings.environment.push_back(fmt::format("{}={}", messages_variable, messages->path().string()));
  }
  ChildResult result = run_child(words, settings);
  if (!reports.exists()) return result;
  const std::vector<std::string> lines = lines_of(errors);
  if (!lines.empty()) result.error_line = lines.back();
  result.exit_code = code_of_run(result.exit_code, lines_of(codes));
  return result;
}

void repeat_error(const ChildResult& result) {
  if (result.exit_code == 0 || result.exit_code == static_cast<int>(ExitCode::stopped)) return;
  if (!result.error_line.empty()) print_text(STDERR_FILENO, result.error_line + "\n");
}

ChildResult Launch::run(const std::vector<std::string>& words) const {
  ChildResult result = run_launcher(words, settings());
  if (ranks > 1) repeat_error(result);  // printed again at the end, because the lines of mpirun hide the error line
  return result;
}

void check_ranks(const DeviceOptions& options, const std::string& launcher) {
  if (options.ranks == 0 || launcher.empty()) return;
  fail(ExitCode::usage,
       "--ranks {}: mpirun, srun or another launcher has started this process ({} is set): omit --ranks, and give the "
       "launcher the number of ranks",
       options.ranks, launcher);
}

std::vector<std::string> words_of_ranks(const std::vector<std::string>& words) {
  return joined(without(words, {"ranks"}), {"--ranks", "0"});  // a configuration file may also set ranks
}

int run_ranks(const std::string& program, int ranks, const std::vector<std::string>& words) {
  require_mpirun(ranks);
  check_mpirun();
  hold_stop_signals();
  const Launch launch{.ranks = ranks, .cores = usable_cores()};
  const fs::path own = fs::read_symlink("/proc/self/exe"), link = programs_folder() / program;
  std::error_code absent;
  const std::string start = (fs::equivalent(link, own, absent) ? link : own).string();
  return exit_code_of(launch.run(launch.command(start, words)), "a rank or mpirun");
}

void say(const std::string& line) {
  fmt::print("carillon: {}\n", printable(line, line.size()));
  std::fflush(stdout);
}

}  // namespace carillon
