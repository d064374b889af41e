// RecordIndex: the positions of the records of plain files. The records can be read in any order as long as the files
// do not change.
//
// `add` stores the length and the stored checksum of each record. If a record differs later, `read` refuses it.
// Therefore readers get the original dataset or an error.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "carillon/data/record.h"

namespace carillon {

class RecordIndex {
 public:
  /// `known`: index entries of files, by path.
  explicit RecordIndex(FileIndex known = {});
  RecordIndex(const RecordIndex&) = delete;
  RecordIndex& operator=(const RecordIndex&) = delete;
  ~RecordIndex();

  /// Appends the records of a file to this index, and calls `visit` for each record. If the file has a known entry and
  /// has not changed since the entry was made, uses this entry. Otherwise reads the file and checks its framing.
  /// Errors: see RecordReader; usage (the file is a GZIP file).
  void add(const std::string& path, const std::function<void(const RecordPlace&)>& visit);

  /// Reads record i into `buffer`, checks its checksum, and returns it with its file. Thread-safe. Errors: data (the
  /// record is damaged, or the file was truncated or written to after it was added); the message names the file.
  std::pair<const std::string&, Record> read(std::size_t i, std::vector<std::uint8_t>& buffer) const;

  /// Implements Dataset::expect_random_order.
  void expect_random_order() const;

  /// Implements Dataset::fetch for `count` records from `first`.
  void fetch(std::size_t first, std::size_t count, const std::stop_token& stop) const;

 private:
  struct File;
  /// Removes the known entry of the open file and returns it. Returns an empty result if there is no entry, or if the
  /// file has changed.
  std::optional<IndexedFile> take_known(const RecordReader& reader);
  const File& file_of(std::size_t i) const;
  RecordPlace place(const File& file, std::size_t i) const;
  void check_now_and_then(const File& file) const;

  FileIndex known_;  ///< entries of files that have not been added yet
  std::vector<File> files_;
  // The index is the record number. The length of a record follows from the offset of the next record, or from the end
  // of its file.
  std::vector<std::uint64_t> offsets_;
  std::vector<std::uint32_t> checksums_;
  mutable std::atomic<std::int64_t> next_check_{0};  // time in nanoseconds of the steady clock
  mutable std::atomic<bool> announces_{false};       // true: read() announces each record to the kernel before it reads
                                                     // the record
};

}  // namespace carillon
