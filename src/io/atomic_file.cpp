#include "src/io/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string>

#include "carillon/core/error.h"

namespace carillon {
namespace {

constexpr std::size_t max_call_bytes = std::size_t{1} << 30;  // Linux moves at most 2 GiB - 4 KiB in one call

template <typename Call>
auto retry_interrupted(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

/// Removes the temporary on the way out, unless it was renamed.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::filesystem::path path) : path_(std::move(path)) {}
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (!renamed_) ::unlink(path_.c_str());
  }
  /// Returns 0 or errno.
  int rename_to(const std::filesystem::path& target) {
    if (std::rename(path_.c_str(), target.c_str()) != 0) return errno;
    renamed_ = true;
    return 0;
  }

 private:
  std::filesystem::path path_;
  bool renamed_ = false;
};

void require(int error, const std::filesystem::path& path, const char* action) {
  if (error != 0) fail(ExitCode::io, "cannot {} {}: {}", action, path.string(), errno_text(error));
}

void sync_directory(const std::filesystem::path& path) {
  const auto directory = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  const Descriptor descriptor(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!descriptor) require(errno, directory, "open directory");
  const int result = retry_interrupted([&] { return ::fsync(descriptor.get()); });
  // Some network file systems have no fsync of a directory: they order renames themselves.
  if (result != 0 && errno != EINVAL && errno != ENOTSUP) require(errno, directory, "sync directory");
}

}  // namespace

int write_all(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto count = std::min(bytes.size(), max_call_bytes);
    const auto written = retry_interrupted([&] { return ::write(descriptor, bytes.data(), count); });
    if (written < 0) return errno;
    if (written == 0) return EIO;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return 0;
}

int read_all(int descriptor, std::span<std::byte> bytes, std::size_t& read_count) {
  read_count = 0;
  while (read_count < bytes.size()) {
    const auto rest = bytes.subspan(read_count);
    const auto count = std::min(rest.size(), max_call_bytes);
    const auto got = retry_interrupted([&] { return ::read(descriptor, rest.data(), count); });
    if (got < 0) return errno;
    if (got == 0) return 0;
    read_count += static_cast<std::size_t>(got);
  }
  return 0;
}

void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  auto temporary_path = path;
  temporary_path += fmt::format(".{}.tmp", ::getpid());
  Descriptor descriptor(::open(temporary_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!descriptor) require(errno, temporary_path, "create");
  TemporaryFile temporary(temporary_path);
  require(write_all(descriptor.get(), bytes), path, "write");
  if (retry_interrupted([&] { return ::fsync(descriptor.get()); }) != 0) require(errno, path, "sync");
  // NFS reports a full disk or quota here at the latest. After EINTR Linux has closed the descriptor all the same.
  if (::close(descriptor.release()) != 0 && errno != EINTR) require(errno, path, "close");
  require(temporary.rename_to(path), path, "replace");
  sync_directory(path);
}

}  // namespace carillon
