#include "src/checkpoint/heartbeat.h"

#include <fcntl.h>

#include <cerrno>

#include "carillon/core/error.h"
#include "carillon/core/file.h"

namespace carillon {
namespace {

constexpr std::size_t max_bytes = 4096;

/// Empty where there is none to be read.
std::string content(const std::filesystem::path& path) {
  try {
    return read_plain_file(path, path.string(), max_bytes);
  } catch (const Error&) {
    return "";
  }
}

}  // namespace

std::string Heartbeat::holder(const std::filesystem::path& path, const HeartbeatTimes& times) {
  const std::string first = content(path);
  const auto end = std::chrono::steady_clock::now() + times.limit;
  while (!first.empty() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(times.interval / 4);
    const std::string now = content(path);
    // A removed file is that of a process that ended. A cut one is being written.
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

/// Opens and closes the file each time: closing shows the change to other hosts (NFS). Returns 0 or errno.
int Heartbeat::beat(int count, int flags) const {
  constexpr int always = O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  const Descriptor descriptor(::open(path_.c_str(), always | flags, 0644));
  if (!descriptor) return errno;
  const std::string text = fmt::format("{}\nbeat {}\n", who_, count);
  return write_all(descriptor.get(), std::as_bytes(std::span(text)));
}

}  // namespace carillon
