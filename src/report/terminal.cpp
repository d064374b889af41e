#include "src/report/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

namespace carillon {
namespace {

/// The file of a process's descriptor: "/dev/pts/3", "pipe:[4711]"; empty: unknown.
std::string stream_of(pid_t process, int descriptor) {
  std::error_code error;
  return std::filesystem::read_symlink(fmt::format("/proc/{}/fd/{}", process, descriptor), error).string();
}

/// Whether Open MPI started the process or one of its ancestors.
bool is_of_a_rank(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/environ", process), std::ios::binary);
  const std::string variables{std::istreambuf_iterator<char>(file), {}};
  return ('\0' + variables).find(std::string("\0OMPI_COMM_WORLD_SIZE=", 22)) != std::string::npos;
}

/// 0: unknown.
pid_t parent_of(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/status", process));
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("PPid:")) return static_cast<pid_t>(std::stol(line.substr(5)));
  }
  return 0;
}

bool is_terminal(const std::string& stream) {
  return stream.starts_with("/dev/pts/") || stream.starts_with("/dev/tty");
}

}  // namespace

bool reaches_terminal(int descriptor) {
  pid_t rank = ::getpid();
  if (!is_of_a_rank(rank)) return ::isatty(descriptor) != 0;
  const std::string own = stream_of(rank, descriptor);
  pid_t launcher = parent_of(rank);
  for (; launcher > 0 && is_of_a_rank(launcher); launcher = parent_of(launcher)) rank = launcher;  // a wrapper script
  return launcher > 0 && !own.empty() && stream_of(rank, descriptor) == own &&
         is_terminal(stream_of(launcher, descriptor));
}

}  // namespace carillon
