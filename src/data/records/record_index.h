// RecordIndex: record positions of plain files, for reading in any order while the files do not change.
//
// `add` notes the length and the stored checksum of each record. If a record differs later, `read` refuses it, so
// readers get the original dataset or an error.
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

  /// Appends the records of a file and calls `visit` for each. If the file has a known entry and has not changed since,
  /// uses this entry. Otherwise reads the file and checks its framing. Errors: as RecordReader; usage (a GZIP file).
  void add(const std::string& path, const std::function<void(const RecordPlace&)>& visit);

  /// Reads record i into `buffer`, checks its checksum, and returns it with its file. Thread-safe. Errors: data
  /// (damage, or a file that was truncated or written to after it was added); the message names the file.
  std::pair<const std::string&, Record> read(std::size_t i, std::vector<std::uint8_t>& buffer) const;

  /// Implements Dataset::expect_random_order.
  void expect_random_order() const;

  /// Implements Dataset::fetch for `count` records from `first`.
  void fetch(std::size_t first, std::size_t count, const std::stop_token& stop) const;

 private:
  struct File;
  /// Removes and returns the known entry of the open file; empty if there is none or the file has changed.
  std::optional<IndexedFile> take_known(const RecordReader& reader);
  const File& file_of(std::size_t i) const;
  RecordPlace place(const File& file, std::size_t i) const;
  void check_now_and_then(const File& file) const;

  FileIndex known_;  ///< entries of files that are not added yet
  std::vector<File> files_;
  // Indexed by record. A record's length follows from the next record's offset or the end of its file.
  std::vector<std::uint64_t> offsets_;
  std::vector<std::uint32_t> checksums_;
  mutable std::atomic<std::int64_t> next_check_{0};  // time in nanoseconds of the steady clock
  mutable std::atomic<bool> announces_{false};       // whether read() announces each record before it reads the record
};

}  // namespace carillon
