// Tools for files: locks, removal of files and folders at the end of a scope, reading of lines from the last line to
// the first line, and file patterns.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "carillon/core/file.h"

namespace carillon {

/// Result of an attempt to lock a file (flock). held: another process holds the lock. none: the file system does not
/// support locks (ENOLCK, ENOTSUP), or does not support them for directories.
enum class LockOutcome { locked, held, none };

/// Tries to take an exclusive or a shared lock, without waiting. The lock ends when the last copy of the descriptor is
/// closed.
LockOutcome try_lock(int descriptor, bool exclusive = true);

/// Prevents that two runs of `carillon` use a folder at the same time. Programs that this process starts inherit the
/// lock. If `carillon` is killed, the lock therefore stays until the training that it started has saved its state and
/// exited.
class FolderLock {
 public:
  enum class Kind { exclusive, shared };

  /// Creates the folder, and the file `.carillon.lock` in it, if they are missing. Does not lock the file yet. Errors:
  /// io.
  explicit FolderLock(const std::filesystem::path& folder);

  /// Takes the lock, or changes its kind. Returns false if another process holds a conflicting lock; this process may
  /// then have lost its earlier lock. Returns true if the file system has no locks.
  bool try_lock(Kind kind) const;
  void unlock() const;

 private:
  Descriptor file_;
};

/// True if `path` names the file that `descriptor` has open. If `path` is a symbolic link, the function does not follow
/// it.
bool same_file(int descriptor, const std::filesystem::path& path);

/// Opens a regular file with a predictable name, such as a lock file. Another user may have created something else with
/// this name. Therefore this function never follows a symbolic link, and never waits for a FIFO. `flags`: as open(2).
/// If it fails, it returns an empty Descriptor and sets errno; ELOOP: the name belongs to a link or to another file
/// that is not regular.
Descriptor open_predictable(const std::filesystem::path& path, int flags);

/// Does the same as the overload above, but throws if the file cannot be opened. Errors: io (the message starts with
/// `subject`).
Descriptor open_predictable(const std::filesystem::path& path, int flags, const std::string& subject);

/// Removes a file or a folder with its contents at the end of a scope, also after an error.
class RemovedAtEnd {
 public:
  explicit RemovedAtEnd(std::filesystem::path path) : path_(std::move(path)) {}
  ~RemovedAtEnd() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  RemovedAtEnd(const RemovedAtEnd&) = delete;
  RemovedAtEnd& operator=(const RemovedAtEnd&) = delete;

 private:
  std::filesystem::path path_;
};

/// Reads the lines of a file from the last one to the first, in blocks. Therefore the memory does not depend on the
/// size of the file. A caller that needs only the last lines reads only the last blocks.
class LinesFromEnd {
 public:
  /// If a line is longer than this, `next` returns an empty text. Carillon's logs have no such lines.
  static constexpr std::size_t max_line_bytes = std::size_t{1} << 20;

  /// Opens a regular file. All functions of this class may throw the errors of open_plain_file.
  explicit LinesFromEnd(const std::filesystem::path& path);

  struct Line {
    std::string text;            ///< the line without its newline
    std::uint64_t end_byte = 0;  ///< offset of the byte after its newline
  };
  /// Returns the line before the line that it returned last. The first call returns the last complete line of the file.
  /// Returns nullopt if no line is left.
  std::optional<Line> next();

 private:
  std::uint64_t after_newline(std::uint64_t end_byte);
  std::string read(std::uint64_t begin_byte, std::size_t bytes) const;

  std::string name_;
  Descriptor file_;
  std::uint64_t end_byte_ = 0;  ///< end of the range in which `next` still has to read lines
  std::uint64_t block_begin_ = 0;
  std::string block_;  ///< the bytes from block_begin_ on, in which `next` searches newlines
};

/// Returns a glob that matches only the path `path`.
std::string escaped_pattern(const std::string& path);

/// Returns files in the order of `patterns`. The matches of each glob are sorted by bytes. If a path exists, it is
/// never treated as a glob. Errors: no_input (a pattern matches no file, or there is no pattern).
std::vector<std::string> expand_file_patterns(std::span<const std::string> patterns);

}  // namespace carillon
