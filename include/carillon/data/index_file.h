// IndexFile: a file in the data directory that holds the record positions of the directory's TFRecord files
// (docs/developer-guide/file-formats.md). A dataset of thousands of files can then be opened without reading them.
//
// An entry is used only if its file still has the recorded size and modification time. Reading a record still checks
// that its length and checksum match the index.
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
  std::uint64_t bytes = 0;               ///< file size
  std::int64_t changed_nanoseconds = 0;  ///< modification time, since 1970
  std::vector<std::uint64_t> offsets;    ///< record header positions in the file, ascending from 0
  std::vector<std::uint32_t> checksums;  ///< stored data checksum of each record
};

using FileIndex = std::map<std::string, IndexedFile>;  ///< by file name in a directory, or by path

/// The contents of an index file, which parse_index reads.
std::string index_bytes(const FileIndex& index);
/// Parses the contents of an index file. Throws std::exception, with the cause, if they are damaged.
FileIndex parse_index(std::string_view bytes);

/// Index of `directory`; empty if there is no index file. Errors: data (damage), io, naming the file.
FileIndex read_index_file(const std::filesystem::path& directory);

/// Writes the index file and replaces an existing one atomically. Errors: io, usage (too large for read_index_file).
void write_index_file(const std::filesystem::path& directory, const FileIndex& index);

/// Valid index entries of the files `paths`, by path, from the index files of their directories. Errors: as
/// read_index_file.
FileIndex known_files(const std::vector<std::string>& paths);

/// Indexes the plain TFRecord files `paths` on all cores and checks their framing. Calls `done(i)` after file i, on any
/// thread. Errors: as RecordReader; usage (a GZIP file).
std::vector<IndexedFile> index_files(const std::vector<std::string>& paths,
                                     const std::function<void(std::size_t)>& done);

}  // namespace carillon
