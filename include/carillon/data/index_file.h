// IndexFile: where the records of a directory's files are, kept in a file beside them (docs/formats.md), so that a set
// of thousands of files is opened without reading them.
//
// What it says of a file counts while that has the size and the time of change that it had. A record that is read is
// checked all the same: its length and checksum are those of the index, or it is refused.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace carillon {

inline constexpr const char* index_file_name = "records.index";

struct IndexedFile {
  std::uint64_t bytes = 0;               ///< of the file
  std::int64_t changed_nanoseconds = 0;  ///< since 1970
  std::vector<std::uint64_t> offsets;    ///< of the records' headers, from 0 on, growing
  std::vector<std::uint32_t> checksums;  ///< of their data, as stored
};

using FileIndex = std::map<std::string, IndexedFile>;  ///< by name within a directory, or by path

/// As bytes that `parse_index` reads; those of an index file.
std::string index_bytes(const FileIndex& index);
/// Throws std::exception, with what is wrong, where it is damaged.
FileIndex parse_index(std::string_view bytes);

/// That of the directory; empty where there is none. Errors: data (damage), io, naming the file.
FileIndex read_index_file(const std::filesystem::path& directory);

/// Puts the file in place of an old one in one step. Errors: io.
void write_index_file(const std::filesystem::path& directory, const FileIndex& index);

/// What the index files of the directories of `paths` say of those that are as they were, by path. Errors: as
/// read_index_file.
FileIndex known_files(const std::vector<std::string>& paths);

/// Of the plain TFRecord files `paths`, their framing checked, on all cores; `done(i)` after each, from any thread.
/// Errors: those of RecordReader; usage (a GZIP file).
std::vector<IndexedFile> index_files(const std::vector<std::string>& paths,
                                     const std::function<void(std::size_t)>& done);

}  // namespace carillon
