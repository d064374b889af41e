#include "carillon/core/file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <random>

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

}  // namespace

Descriptor open_plain_file(const std::filesystem::path& path, const std::string& subject, ExitCode unsuitable) {
  if (path.native().find('\0') != path.native().npos) fail(ExitCode::no_input, "{}: has a NUL character", subject);
  // O_NONBLOCK: opening a FIFO must not wait for a writer. The check below refuses FIFOs.
  Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!descriptor && (errno == ENOENT || errno == ENOTDIR)) fail(ExitCode::no_input, "{}: no such file", subject);
  struct stat status {};
  // open() of a socket fails with ENXIO.
  const bool known =
      descriptor ? ::fstat(descriptor.get(), &status) == 0 : errno == ENXIO && ::stat(path.c_str(), &status) == 0;
  if (!known) fail(ExitCode::io, "{}: cannot be opened: {}", subject, errno_text(errno));
  if (S_ISDIR(status.st_mode)) fail(unsuitable, "{}: is a directory", subject);
  if (!S_ISREG(status.st_mode)) fail(unsuitable, "{}: is not a regular file", subject);
  return descriptor;
}

namespace {

FileStamp stamp(const struct stat& status) {
  return {static_cast<std::uint64_t>(status.st_size),
          std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
}

}  // namespace

FileStamp stamp_of(const Descriptor& file, const std::string& subject) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail(ExitCode::io, "{}: {}", subject, errno_text(errno));
  return stamp(status);
}

std::optional<FileStamp> stamp_of(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return stamp(status);
}

std::string read_plain_file(const std::filesystem::path& path, const std::string& subject, std::size_t max_bytes,
                            ExitCode unsuitable) {
  constexpr std::size_t piece_bytes = std::size_t{64} << 10;
  const Descriptor descriptor = open_plain_file(path, subject, unsuitable);
  std::string text;
  for (;;) {  // does not use the reported size, because files in /proc have size 0
    const std::size_t before = text.size();
    text.resize(before + piece_bytes);
    std::size_t count = 0;
    const int error = read_all(descriptor.get(), std::as_writable_bytes(std::span(text).subspan(before)), count);
    if (error != 0) fail(ExitCode::io, "{}: cannot be read: {}", subject, errno_text(error));
    text.resize(before + count);
    if (text.size() > max_bytes) fail(unsuitable, "{}: has more than {} bytes", subject, max_bytes);
    if (count < piece_bytes) return text;
  }
}

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

void sync_directory(const std::filesystem::path& directory) {
  const auto name = directory.empty() ? std::filesystem::path(".") : directory;
  const Descriptor descriptor(::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!descriptor) fail(ExitCode::io, "cannot open directory {}: {}", name.string(), errno_text(errno));
  const int result = retry_interrupted([&] { return ::fsync(descriptor.get()); });
  // Some network file systems cannot sync a directory, because they order renames themselves.
  if (result != 0 && errno != EINVAL && errno != ENOTSUP) {
    fail(ExitCode::io, "cannot sync directory {}: {}", name.string(), errno_text(errno));
  }
}

std::filesystem::path output_target(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  const auto refuse = [&](std::string_view cause) { fail(ExitCode::io, "{}: {}", path.string(), cause); };
  std::error_code error;
  const fs::file_type type = fs::status(path, error).type();  // follows links, even links of /proc/self/fd
  if (type == fs::file_type::none) refuse(error.message());
  if (type == fs::file_type::directory) refuse("is a directory");
  if (type != fs::file_type::regular && type != fs::file_type::not_found) {
    refuse("is not a regular file, and is not replaced");
  }
  fs::path target = path;
  while (fs::is_symlink(fs::symlink_status(target, error))) {  // the loop ends, because `status` reports cycles
    const fs::path next = fs::read_symlink(target, error);
    if (error) refuse(error.message());
    target = target.parent_path() / next;
  }
  return target;
}

NewFile::NewFile(std::filesystem::path path, std::string_view prefix)
    : path_(std::move(path)), target_(output_target(path_)) {
  // Random digits, because process IDs are not unique: containers on the same host or on different hosts can share a
  // directory.
  std::random_device random;
  const std::uint64_t number = std::uint64_t{random()} << 32 | random();
  temporary_ = directory() / fmt::format("{}{}.{:016x}.tmp", prefix, target_.filename().string(), number);
  descriptor_ = Descriptor(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!descriptor_) {
    fail(ExitCode::io, "{}: cannot create {}: {}", path_.string(), temporary_.string(), errno_text(errno));
  }
}

NewFile::~NewFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void NewFile::write(std::span<const std::byte> bytes) {
  if (const int error = write_all(descriptor_.get(), bytes)) fail_to("write", error);
}

void NewFile::set_time(std::int64_t changed_nanoseconds) {
  constexpr std::int64_t second = 1'000'000'000;
  const timespec changed{changed_nanoseconds / second, changed_nanoseconds % second};
  const std::array<timespec, 2> times{changed, changed};
  if (::futimens(descriptor_.get(), times.data()) != 0) fail_to("set the time of", errno);
}

void NewFile::finish() {
  if (retry_interrupted([&] { return ::fsync(descriptor_.get()); }) != 0) fail_to("sync", errno);
  // NFS reports a full disk or quota in close() at the latest. On Linux, the descriptor is closed even after EINTR.
  if (::close(descriptor_.release()) != 0 && errno != EINTR) fail_to("close", errno);
}

void NewFile::publish() {
  static_cast<void>(output_target(path_));  // throws if the target is now a device node
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) fail_to("replace", errno);
  temporary_.clear();
}

void NewFile::fail_to(std::string_view action, int error) const {
  fail(ExitCode::io, "cannot {} {}: {}", action, path_.string(), errno_text(error));
}

void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes, std::size_t max_bytes) {
  if (bytes.size() > max_bytes) {
    fail(ExitCode::usage, "{}: would have {} bytes; programs that read it accept at most {}", path.string(),
         bytes.size(), max_bytes);
  }
  NewFile file(path);
  file.write(bytes);
  file.finish();
  file.publish();
  sync_directory(file.directory());
}

void remove_file(const std::filesystem::path& path) {
  std::error_code error;
  const auto type = std::filesystem::symlink_status(path, error).type();
  if (type == std::filesystem::file_type::not_found) return;
  if (type == std::filesystem::file_type::regular || type == std::filesystem::file_type::symlink) {
    std::filesystem::remove(path, error);
  } else if (!error) {
    error = std::make_error_code(std::errc::operation_not_permitted);
  }
  if (error) fail(ExitCode::io, "cannot remove {}: {}", path.string(), error.message());
}

void check_output(const std::filesystem::path& path) { const NewFile abandoned(path); }

}  // namespace carillon
