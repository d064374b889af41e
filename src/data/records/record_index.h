// RecordIndex: where the records of plain files are, to be read in any order while the files stay as they were.
//
// A record is known by its length and stored checksum from when its file was added; what no longer has them is refused,
// so that whoever reads sees the set that was opened, or an error.
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

#include "carillon/data/index_file.h"
#include "carillon/data/record.h"

namespace carillon {

class RecordIndex {
 public:
  /// `known`: what is known of files, by path.
  explicit RecordIndex(FileIndex known = {});
  RecordIndex(const RecordIndex&) = delete;
  RecordIndex& operator=(const RecordIndex&) = delete;
  ~RecordIndex();

  /// Appends a file's records; `visit` sees each. They are those that are known, where the file is as it was then; else
  /// their framing is checked. Errors: those of RecordReader; usage (a GZIP file).
  void add(const std::string& path, const std::function<void(const RecordPlace&)>& visit);

  /// Record i in `buffer`, its checksum checked, and its file. From several threads at once. Errors: data (damage; a
  /// file that was cut or written to since it was added), naming the file.
  std::pair<const std::string&, Record> read(std::size_t i, std::vector<std::uint8_t>& buffer) const;

  /// Dataset::expect_random_order.
  void expect_random_order() const;

  /// Dataset::fetch of `count` records from `first` on.
  void fetch(std::size_t first, std::size_t count, const std::stop_token& stop) const;

 private:
  struct File;
  /// What is known of the open file, once; nothing where that is not so now.
  std::optional<IndexedFile> take_known(const RecordReader& reader);
  const File& file_of(std::size_t i) const;
  RecordPlace place(const File& file, std::size_t i) const;
  void check_now_and_then(const File& file) const;

  FileIndex known_;  ///< what is not taken yet
  std::vector<File> files_;
  // By record; its length is what lies before the next one or its file's end.
  std::vector<std::uint64_t> offsets_;
  std::vector<std::uint32_t> checksums_;
  mutable std::atomic<std::int64_t> next_check_{0};  // nanoseconds of the steady clock
  mutable std::atomic<bool> announces_{false};       // each record before it is read
};

}  // namespace carillon
