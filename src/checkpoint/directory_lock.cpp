#include "src/checkpoint/directory_lock.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstdlib>

#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "src/core/file_tools.h"
#include "src/core/process.h"
#include "src/core/text.h"

namespace carillon {
namespace {

std::string this_process() {
  const char* job = std::getenv("SLURM_JOB_ID");
  constexpr std::size_t max_job_bytes = 100;  // readers of .lock and .heartbeat read a few hundred bytes
  const std::string of_job = job ? fmt::format(", job {}", printable(job, max_job_bytes)) : "";
  return fmt::format("host {}, process {}{}", host_name(), getpid(), of_job);
}

/// Returns the text that the holder wrote to the file.
std::string read_holder(int descriptor) {
  std::array<char, 512> text{};
  if (descriptor < 0) return "a run (its .lock file was removed)";
  const ssize_t length = pread(descriptor, text.data(), text.size(), 0);
  return length > 0 ? std::string(text.data(), static_cast<std::size_t>(length)) : "an unknown process";
}

constexpr std::size_t max_heartbeat_bytes = 4096;

/// Returns the text of the file, or an empty text if the file cannot be read.
std::string content(const std::filesystem::path& path) {
  try {
    return read_plain_file(path, path.string(), max_heartbeat_bytes);
  } catch (const Error&) {
    return "";
  }
}

}  // namespace

LockState look_at_lock(const std::filesystem::path& directory) {
  // If flock is emulated by byte-range locks (NFS), an exclusive lock requires a file that is open for writing.
  const Descriptor lock = open_predictable(directory / ".lock", O_RDWR);
  if (!lock) return LockState::absent;
  const LockOutcome outcome = try_lock(lock.get());
  if (outcome == LockOutcome::none) return LockState::none;
  return outcome == LockOutcome::held ? LockState::held : LockState::free;
}

DirectoryLock::DirectoryLock(const std::filesystem::path& directory,
                             const std::function<void(const std::string&)>& warn)
    : directory_(directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) fail(ExitCode::io, "--train-dir {}: cannot create it: {}", directory.string(), error.message());
  if (access(directory.c_str(), W_OK | X_OK) != 0) {
    fail(ExitCode::io, "--train-dir {}: cannot write there: {}", directory.string(), errno_text(errno));
  }
  const bool directory_is_locked = lock_directory(), file_is_locked = lock_file();
  const auto beats = directory / ".heartbeat";
  if (std::filesystem::exists(beats, error)) {
    warn(fmt::format("--train-dir {}: checking for some seconds whether the run that wrote its .heartbeat is alive",
                     directory.string()));
    if (const std::string holder = Heartbeat::holder(beats); !holder.empty()) fail_in_use(holder);
  }
  if (directory_is_locked && file_is_locked) return;
  if (!directory_is_locked && !file_is_locked) {
    warn(fmt::format("--train-dir {}: the file system has no locks; other runs detect this run by {}",
                     directory.string(), beats.filename().string()));
  }
  heartbeat_ = std::make_unique<Heartbeat>(beats, this_process());
}

DirectoryLock::~DirectoryLock() = default;

/// Returns false if directories cannot be locked.
bool DirectoryLock::lock_directory() {
  directory_lock_ = Descriptor(open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const LockOutcome outcome = directory_lock_ ? try_lock(directory_lock_.get()) : LockOutcome::none;
  if (outcome == LockOutcome::held) {
    fail_in_use(read_holder(open_predictable(directory_ / ".lock", O_RDONLY).get()));
  }
  return outcome == LockOutcome::locked;
}

/// Returns false if files cannot be locked. Writes nothing before it holds the lock.
bool DirectoryLock::lock_file() {
  const std::filesystem::path path = directory_ / ".lock";
  do {  // repeat if the file was deleted before it was locked, because the next job would lock a new file
    file_lock_ = open_predictable(path, O_RDWR | O_CREAT);
    if (!file_lock_ && errno == ELOOP) {
      fail(ExitCode::io, "--train-dir {}: its .lock is not a regular file", directory_.string());
    }
    if (!file_lock_)
      fail(ExitCode::io, "--train-dir {}: cannot write there: {}", directory_.string(), errno_text(errno));
    const LockOutcome outcome = try_lock(file_lock_.get());
    if (outcome == LockOutcome::held) fail_in_use(read_holder(file_lock_.get()));
    if (outcome == LockOutcome::none) return false;
  } while (!same_file(file_lock_.get(), path));
  const std::string text = this_process();
  static_cast<void>(!ftruncate(file_lock_.get(), 0));
  static_cast<void>(!pwrite(file_lock_.get(), text.data(), text.size(), 0));
  return true;
}

void DirectoryLock::fail_in_use(const std::string& holder) const {
  fail(ExitCode::usage, "--train-dir {}: in use by {}: wait until it ends, or name another directory",
       directory_.string(), holder);
}

std::string Heartbeat::holder(const std::filesystem::path& path, const HeartbeatTimes& times) {
  const std::string first = content(path);
  const auto end = std::chrono::steady_clock::now() + times.limit;
  while (!first.empty() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(times.interval / 4);
    const std::string now = content(path);
    // If the text is empty, the file is gone, so its process has ended. If the text has no line end, the process is
    // writing the file.
    if (now != first && now.find('\n') != now.npos) return now.substr(0, now.find('\n'));
  }
  if (content(path) == first) remove_file(path);
  return "";
}

Heartbeat::Heartbeat(std::filesystem::path path, std::string who, const HeartbeatTimes& times)
    : path_(std::move(path)), who_(std::move(who)) {
  if (beat(0, O_EXCL) == EEXIST) fail(ExitCode::usage, "{}: another run has just begun there", path_.string());
  thread_ = std::jthread([this, interval = times.interval](const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    for (int count = 1; !ended_.wait_for(lock, stop, interval, [&] { return stop.stop_requested(); }); ++count) {
      beat(count, 0);
    }
  });
}

Heartbeat::~Heartbeat() {
  thread_.request_stop();
  thread_.join();
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

/// Opens and closes the file each time, because closing makes the change visible on other hosts (NFS). Returns 0 or
/// errno.
int Heartbeat::beat(int count, int flags) const {
  const Descriptor descriptor = open_predictable(path_, O_WRONLY | O_CREAT | flags);
  if (!descriptor) return errno;
  const std::string text = fmt::format("{}\nbeat {}\n", who_, count);
  return write_all(descriptor.get(), std::as_bytes(std::span(text)));
}

}  // namespace carillon
