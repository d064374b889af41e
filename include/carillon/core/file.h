// Files: descriptors, complete reads and writes, and files that get their name only when they are complete and synced.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "carillon/core/error.h"
#include "carillon/core/handle.h"

namespace carillon {

using Descriptor = Handle<int, ::close, -1>;

/// Opens a regular file for reading. Refuses directories, FIFOs (opening may wait for a writer) and devices (reading
/// may never end). Errors: no_input (the file does not exist), `unsuitable` (it is not a regular file), io. The error
/// messages start with `subject`.
Descriptor open_plain_file(const std::filesystem::path& path, const std::string& subject,
                           ExitCode unsuitable = ExitCode::data);

/// Returns the contents of a regular file. Errors: as open_plain_file, and `unsuitable` (the file has more than
/// `max_bytes` bytes).
std::string read_plain_file(const std::filesystem::path& path, const std::string& subject, std::size_t max_bytes,
                            ExitCode unsuitable = ExitCode::data);

/// Writes all of `bytes`; continues after signals and short writes. Returns 0 or errno.
int write_all(int descriptor, std::span<const std::byte> bytes);

/// Reads until `bytes` is full or the file ends. `read_count`: bytes read. Returns 0 or errno.
int read_all(int descriptor, std::span<std::byte> bytes, std::size_t& read_count);

/// Size and modification time of a file. If they are unchanged, the contents are assumed to be unchanged.
struct FileStamp {
  std::uint64_t bytes = 0;
  std::int64_t changed_nanoseconds = 0;  ///< modification time, in nanoseconds since 1970 (UTC)

  bool operator==(const FileStamp&) const = default;
};
/// Returns the size and modification time of an open file. Errors: io; the message starts with `subject`.
FileStamp stamp_of(const Descriptor& file, const std::string& subject);
/// Returns the size and modification time of a file, or nullopt if the file does not exist or `stat` fails.
std::optional<FileStamp> stamp_of(const std::filesystem::path& path);

/// Syncs the names in a directory, so that a rename survives a power cut. Errors: io.
void sync_directory(const std::filesystem::path& directory);

/// Returns the file that a program writes if the user names `path` as the output. If `path` is a symbolic link, the
/// result is the file at the end of the chain of links. Otherwise the result is `path`. All programs write to this
/// file. Therefore symbolic links stay links, and a device node or FIFO is never replaced. Errors: io (`path` leads to
/// something that is not a regular file, or a link cannot be followed).
std::filesystem::path output_target(const std::filesystem::path& path);

/// A file that has a temporary name until `publish` renames it to its final name, output_target(path), in the same
/// directory. The temporary name is prefix, name, ".", 16 random hexadecimal digits, ".tmp". The destructor removes an
/// unpublished file. If the process is killed, the file remains; is_temporary_name recognises its name. The caller
/// calls write, then finish, then publish. Errors of all members: io (path, cause).
class NewFile {
 public:
  explicit NewFile(std::filesystem::path path, std::string_view prefix = "");
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();

  void write(std::span<const std::byte> bytes);
  /// Sets the modification time. Call it after the last write and before `finish`.
  void set_time(std::int64_t changed_nanoseconds);
  /// Syncs and closes the file.
  void finish();
  /// Renames the finished file to its final name. `sync_directory(directory())` makes the rename durable.
  void publish();
  /// Keeps the finished file under its temporary name, also after an error.
  void keep() { temporary_.clear(); }
  const std::filesystem::path& path() const { return path_; }
  const std::filesystem::path& temporary() const { return temporary_; }
  std::filesystem::path directory() const { return target_.parent_path(); }

 private:
  [[noreturn]] void fail_to(std::string_view action, int error) const;

  std::filesystem::path path_, target_, temporary_;  // temporary_ is empty after publish or keep
  Descriptor descriptor_;
};

/// Writes `bytes` to `path`. A file named `path` is always complete and synced. If an error occurs before the rename,
/// the old file stays. `max_bytes`: the limit of the programs that read the file. Errors: io (path, cause), usage
/// (`bytes` has more than `max_bytes` bytes).
void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes,
                           std::size_t max_bytes = std::numeric_limits<std::size_t>::max());

/// Creates a NewFile for `path` and removes it, to find errors. Programs call this before a long computation. Errors:
/// as NewFile.
void check_output(const std::filesystem::path& path);

/// Removes a regular file or a symbolic link, if there is one. Errors: io (also if `path` is a directory or special
/// file, which is not removed).
void remove_file(const std::filesystem::path& path);

/// True if `name` is a temporary name of NewFile with this prefix and a base name for which `matches(base)` is true.
/// Versions before 2026-11-24 wrote the process ID instead of the random digits.
template <typename Matches>
bool is_temporary_name(std::string_view name, Matches matches, std::string_view prefix = "") {
  constexpr std::string_view suffix = ".tmp";
  if (!name.starts_with(prefix) || !name.ends_with(suffix)) return false;
  name.remove_prefix(prefix.size());
  if (name.size() < suffix.size()) return false;
  name.remove_suffix(suffix.size());
  const auto dot = name.rfind('.');
  if (dot == name.npos) return false;
  const std::string_view digits = name.substr(dot + 1);
  const bool is_random = digits.size() == 16 && digits.find_first_not_of("0123456789abcdef") == digits.npos;
  const bool is_process = !digits.empty() && digits.find_first_not_of("0123456789") == digits.npos;
  return (is_random || is_process) && matches(name.substr(0, dot));
}

}  // namespace carillon
