// Files: descriptors, whole writes, and a file that bears its name only once it is complete and synced.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "carillon/core/error.h"
#include "carillon/core/handle.h"

namespace carillon {

using Descriptor = Handle<int, ::close, -1>;

/// Opens a plain file to be read. Nothing else is opened, as a FIFO waits for its writer and a device may never end.
/// Errors start with `subject`: no_input (nothing is there), `unsuitable` (it is no plain file), io.
Descriptor open_plain_file(const std::filesystem::path& path, const std::string& subject,
                           ExitCode unsuitable = ExitCode::data);

/// The whole of a plain file. Errors: those of open_plain_file; `unsuitable` (it has more than `max_bytes`).
std::string read_plain_file(const std::filesystem::path& path, const std::string& subject, std::size_t max_bytes,
                            ExitCode unsuitable = ExitCode::data);

/// Writes all of `bytes`, going on after signals and short writes. Returns 0 or errno.
int write_all(int descriptor, std::span<const std::byte> bytes);

/// Reads until `bytes` is full or the file ends; `read_count` says how much it was. Returns 0 or errno.
int read_all(int descriptor, std::span<std::byte> bytes, std::size_t& read_count);

/// By which a file's contents are known again without reading them.
struct FileStamp {
  std::uint64_t bytes = 0;
  std::int64_t changed_nanoseconds = 0;  ///< since 1970

  bool operator==(const FileStamp&) const = default;
};
/// Of an open file. Errors: io, starting with `subject`.
FileStamp stamp_of(const Descriptor& file, const std::string& subject);
/// Nothing where there is none, or the system does not say.
std::optional<FileStamp> stamp_of(const std::filesystem::path& path);

/// Makes the names in the directory last: after a rename, so that it outlives a power cut. Errors: io.
void sync_directory(const std::filesystem::path& directory);

/// A file written under the name <prefix><name>.<pid>.tmp beside its own: abandoned, it leaves nothing behind, and
/// killed, what `is_temporary_name` knows. Errors of all members: io (path, cause).
class NewFile {
 public:
  explicit NewFile(std::filesystem::path path, std::string_view prefix = "");
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();

  void write(std::span<const std::byte> bytes);
  /// Gives the file this time of change; nothing is written after that.
  void set_time(std::int64_t changed_nanoseconds);
  /// Syncs and closes what was written.
  void finish();
  /// Puts the finished file under its name; `sync_directory` makes that last.
  void publish();

 private:
  [[noreturn]] void fail_to(std::string_view action, int error) const;

  std::filesystem::path path_, temporary_;  // no temporary: published
  Descriptor descriptor_;
};

/// Puts `bytes` under `path`: only complete, synced files ever bear that name. On an error before the rename the old
/// file stays. Errors: io (path, cause).
void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes);

/// Whether `name` is that of a temporary, made with this prefix for a file whose name `matches(base)`.
template <typename Matches>
bool is_temporary_name(std::string_view name, Matches matches, std::string_view prefix = "") {
  constexpr std::string_view suffix = ".tmp";
  if (!name.starts_with(prefix) || !name.ends_with(suffix)) return false;
  name.remove_prefix(prefix.size());
  if (name.size() < suffix.size()) return false;
  name.remove_suffix(suffix.size());
  const auto digits = name.find_last_not_of("0123456789");
  if (digits == name.npos || digits + 1 == name.size() || name[digits] != '.') return false;
  return matches(name.substr(0, digits));
}

}  // namespace carillon
