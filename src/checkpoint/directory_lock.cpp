#include "carillon/checkpoint/directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <string>

#include "carillon/core/error.h"
#include "carillon/core/host_name.h"

namespace carillon {
namespace {

std::string this_process() {
  const char* job = std::getenv("SLURM_JOB_ID");
  return fmt::format("host {}, process {}{}", host_name(), getpid(), job ? fmt::format(", job {}", job) : "");
}

std::string read_text(int descriptor) {
  std::array<char, 512> text{};
  const ssize_t length = pread(descriptor, text.data(), text.size(), 0);
  return length > 0 ? std::string(text.data(), static_cast<std::size_t>(length)) : "an unknown process";
}

}  // namespace

DirectoryLock::DirectoryLock(const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) fail(ExitCode::io, "--train-dir {}: cannot make it: {}", directory.string(), error.message());
  if (access(directory.c_str(), W_OK | X_OK) != 0) {
    fail(ExitCode::io, "--train-dir {}: cannot write there: {}", directory.string(), errno_text(errno));
  }
  const std::filesystem::path path = directory / ".lock";
  descriptor_ = Descriptor(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!descriptor_) fail(ExitCode::io, "--train-dir {}: cannot write there: {}", directory.string(), errno_text(errno));
  if (flock(descriptor_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      fail(ExitCode::usage, "--train-dir {}: in use by {}", directory.string(), read_text(descriptor_.get()));
    }
    return;  // a file system without locks: go on without
  }
  const std::string text = this_process();
  static_cast<void>(!ftruncate(descriptor_.get(), 0));
  static_cast<void>(!pwrite(descriptor_.get(), text.data(), text.size(), 0));
}

}  // namespace carillon
