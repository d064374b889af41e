// Atomic file replacement: a temporary in the same directory, write, fsync, rename, fsync of the directory.
//
// So only complete, synced files ever bear the final name. Temporaries are `<name>.<pid>.tmp`.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <span>

#include "carillon/core/handle.h"

namespace carillon {

using Descriptor = Handle<int, ::close, -1>;

/// Puts `bytes` under `path`. On an error before the rename the old file stays and the temporary is removed.
/// Errors: io (path, cause).
void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes);

/// Writes all of `bytes`, going on after signals and short writes. Returns 0 or errno.
int write_all(int descriptor, std::span<const std::byte> bytes);

/// Reads until `bytes` is full or the file ends; `read_count` says how much it was. Returns 0 or errno.
int read_all(int descriptor, std::span<std::byte> bytes, std::size_t& read_count);

/// Whether `name` is that of a temporary made for a file whose name `matches(base)`.
template <typename Matches>
bool is_temporary_name(std::string_view name, Matches matches) {
  constexpr std::string_view suffix = ".tmp";
  if (!name.ends_with(suffix)) return false;
  name.remove_suffix(suffix.size());
  const auto digits = name.find_last_not_of("0123456789");
  if (digits == name.npos || digits + 1 == name.size() || name[digits] != '.') return false;
  return matches(name.substr(0, digits));
}

}  // namespace carillon
