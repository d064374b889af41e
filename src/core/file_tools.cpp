#include "src/core/file_tools.h"

#include <fcntl.h>
#include <glob.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "carillon/core/error.h"

namespace carillon {

LockOutcome try_lock(int descriptor, bool exclusive) {
  if (flock(descriptor, (exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB) == 0) return LockOutcome::locked;
  return errno == EWOULDBLOCK ? LockOutcome::held : LockOutcome::none;
}

FolderLock::FolderLock(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);  // errors are ignored, because opening the lock file below
                                                       // reports them
  const std::filesystem::path path = folder / ".carillon.lock";
  file_ = open_predictable(path, O_RDWR | O_CREAT, path.string());
  if (fcntl(file_.get(), F_SETFD, 0) != 0) {  // the descriptor is not close-on-exec, so that child processes inherit
                                              // the lock
    fail(ExitCode::io, "{}: cannot be kept open: {}", path.string(), errno_text(errno));
  }
}

void FolderLock::unlock() const { static_cast<void>(flock(file_.get(), LOCK_UN)); }

bool FolderLock::try_lock(Kind kind) const {
  return carillon::try_lock(file_.get(), kind == Kind::exclusive) != LockOutcome::held;
}

bool same_file(int descriptor, const std::filesystem::path& path) {
  struct stat opened {
  }, named{};
  return fstat(descriptor, &opened) == 0 && lstat(path.c_str(), &named) == 0 && opened.st_dev == named.st_dev &&
         opened.st_ino == named.st_ino;
}

Descriptor open_predictable(const std::filesystem::path& path, int flags) {
  Descriptor file(::open(path.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644));
  struct stat status {};
  if (!file) {
    if (errno == ENXIO) errno = ELOOP;  // the file is a FIFO without a reader, or a socket
    return file;
  }
  if (fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode)) return file;
  file = {};  // the file is closed before errno is set, because closing may change errno
  errno = ELOOP;
  return {};
}

Descriptor open_predictable(const std::filesystem::path& path, int flags, const std::string& subject) {
  Descriptor file = open_predictable(path, flags);
  if (file) return file;
  const int error = errno;
  if (error == ELOOP) fail(ExitCode::io, "{}: is a link or no regular file: remove it", subject);
  fail(ExitCode::io, "{}: cannot be opened: {}", subject, errno_text(error));
}

LinesFromEnd::LinesFromEnd(const std::filesystem::path& path)
    : name_(path.string()), file_(open_plain_file(path, name_)) {
  end_byte_ = after_newline(stamp_of(file_, name_).bytes);
}

std::optional<LinesFromEnd::Line> LinesFromEnd::next() {
  if (end_byte_ == 0) return std::nullopt;
  const std::uint64_t begin_byte = after_newline(end_byte_ - 1), bytes = end_byte_ - 1 - begin_byte;
  Line line{.text = {}, .end_byte = end_byte_};
  if (bytes <= max_line_bytes) line.text = read(begin_byte, bytes);
  end_byte_ = begin_byte;
  return line;
}

/// Returns the offset after the last newline before `end_byte`, or 0 if there is none.
std::uint64_t LinesFromEnd::after_newline(std::uint64_t end_byte) {
  constexpr std::uint64_t block_bytes = std::uint64_t{1} << 18;
  while (end_byte > 0) {
    if (end_byte <= block_begin_ || end_byte > block_begin_ + block_.size()) {
      block_begin_ = (end_byte - 1) / block_bytes * block_bytes;
      block_ = read(block_begin_, end_byte - block_begin_);
    }
    const std::size_t newline = block_.rfind('\n', end_byte - 1 - block_begin_);
    if (newline != block_.npos) return block_begin_ + newline + 1;
    end_byte = block_begin_;
  }
  return 0;
}

std::string LinesFromEnd::read(std::uint64_t begin_byte, std::size_t bytes) const {
  std::string text(bytes, '\0');
  std::size_t count = 0;
  int error = ::lseek(file_.get(), static_cast<off_t>(begin_byte), SEEK_SET) < 0 ? errno : 0;
  if (error == 0) error = read_all(file_.get(), std::as_writable_bytes(std::span(text)), count);
  if (error != 0) fail(ExitCode::io, "{}: cannot be read: {}", name_, errno_text(error));
  if (count < bytes) fail(ExitCode::io, "{}: became shorter while it was read", name_);
  return text;
}

namespace {

struct GlobMatches {
  glob_t found{};
  GlobMatches() = default;
  GlobMatches(const GlobMatches&) = delete;
  GlobMatches& operator=(const GlobMatches&) = delete;
  ~GlobMatches() { ::globfree(&found); }
};

std::vector<std::string> glob_matches(const std::string& pattern) {
  GlobMatches matches;
  const int result = ::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &matches.found);
  if (result == GLOB_NOMATCH) fail(ExitCode::no_input, "{}: no file matches", pattern);
  if (result != 0) fail(ExitCode::io, "{}: cannot list the files that match the pattern", pattern);
  std::vector<std::string> files(matches.found.gl_pathv, matches.found.gl_pathv + matches.found.gl_pathc);
  std::ranges::sort(files);  // sorts by bytes, so the order is the same in every locale
  return files;
}

}  // namespace

std::string escaped_pattern(const std::string& path) {
  std::string pattern;
  for (const char c : path) {
    if (c == '*' || c == '?' || c == '[') {
      pattern += {'[', c, ']'};
    } else if (c == '\\') {
      pattern += "\\\\";
    } else {
      pattern += c;
    }
  }
  return pattern;
}

std::vector<std::string> expand_file_patterns(std::span<const std::string> patterns) {
  if (patterns.empty()) fail(ExitCode::no_input, "no data file is given");
  std::vector<std::string> files;
  for (const std::string& pattern : patterns) {
    std::error_code ignored;
    const bool is_glob = pattern.find_first_of("*?[") != std::string::npos;
    if (!is_glob || std::filesystem::exists(pattern, ignored)) {
      files.push_back(pattern);
    } else {
      std::ranges::move(glob_matches(pattern), std::back_inserter(files));
    }
  }
  return files;
}

}  // namespace carillon
