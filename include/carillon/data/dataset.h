// Dataset: fixed-size images and their targets, stored as records in TFRecord files and addressed by record number.
//
// The records have the numbers 0 to M - 1: first the records of the first file in their order in the file, then the
// records of the second file, and so on. The files have the order in which the caller names them; matches of a pattern
// are sorted by name. A record is a sequence of bytes of any length. The dataset's decoder turns it into an image and a
// target. Opening a dataset checks the framing of every record, except in files with a valid index entry
// (data/record.h). Decoding a record checks its checksum and contents. With the cache, `open` decodes all records;
// otherwise `read` decodes each one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "carillon/core/sample.h"
#include "carillon/data/decoder.h"
#include "carillon/data/record.h"

namespace carillon {

/// When a dataset decodes its records: it decodes all records into memory at the start, or decodes each record when it
/// is read.
enum class CacheMode {
  automatic,  ///< chooses `memory` if the decoded dataset fits in half of the available memory, otherwise `none`.
              ///< Chooses `none` if the decoder draws random numbers or is slow
  memory,     ///< decode the whole dataset once, when `open` runs
  none,       ///< keep an index of offsets, and decode at every read (only for plain files, because a GZIP file has no
              ///< random access)
};

/// The share of one rank: files [begin, end) of a dataset. Rank t of N has the files F * t / N to F * (t + 1) / N - 1
/// of F files. The divisions round down.
struct FileShare {
  std::size_t begin, end;
};
constexpr FileShare file_share(std::size_t file_count, int tower, int tower_count) {
  const auto at = [&](int number) {
    return file_count * static_cast<std::size_t>(number) / static_cast<std::size_t>(tower_count);
  };
  return {at(tower), at(tower + 1)};
}

/// What Dataset::open does if the decoder's find_fault reads a damaged record. refuse: `open` throws. ignore: `open`
/// passes an image of zeros to find_fault.
enum class DamagedSamples { refuse, ignore };

class Dataset {
 public:
  /// Opens all files that match `patterns` (paths or globs).
  /// `local_rank_count`: number of processes on this machine that open the same dataset and share the machine's memory.
  /// `known`: index entries of the files, by path. `open` uses them only if it does not cache the records. `open`
  /// ignores the entry of a file that has changed since the entry was made. If `known` is empty, `open` uses the index
  /// files in the directories of the data files.
  /// Errors: no_input (a pattern matches no file, or there are no patterns); io; data (a record is damaged or
  /// unsuitable; the message contains file, record number and byte offset), data (the dataset has no records; the
  /// decoder's find_fault found a fault); usage (CacheMode::memory with a decoder that draws random numbers; a GZIP
  /// file without the cache). CacheMode::automatic does not cache if the decoder draws random numbers or is slow. It
  /// also does not cache if the decoded dataset is larger than half of the available memory, divided by
  /// local_rank_count. `damaged`: pass DamagedSamples::ignore if you will call skip_damaged later.
  static Dataset open(std::span<const std::string> patterns, std::shared_ptr<const RecordDecoder> decoder,
                      CacheMode cache = CacheMode::automatic, int local_rank_count = 1, FileIndex known = {},
                      DamagedSamples damaged = DamagedSamples::refuse);

  /// True if `open` would decode these files into memory. With CacheMode::automatic, the result is an estimate, which
  /// uses the first records of the files and the memory that is available now. `open` may decide differently. Errors:
  /// as `open`.
  static bool would_cache(const std::vector<std::string>& paths, const RecordDecoder& decoder, CacheMode cache,
                          int local_rank_count);

  /// Makes a dataset of noise images in memory. Benchmarks use it if they have no data files. `decoder` determines the
  /// shapes and the synthetic targets. The dataset is equal in all processes. The dataset has as many images as fit in
  /// 128 MiB, but at least 64 and at most 10,000.
  static Dataset synthetic(std::shared_ptr<const RecordDecoder> decoder);

  Dataset(Dataset&&) noexcept;
  Dataset& operator=(Dataset&&) noexcept;
  ~Dataset();

  std::size_t size() const;               ///< number of records, M; at least 1
  const ImageShape& image_shape() const;  ///< shape of every decoded image
  const TargetSpec& target_spec() const;  ///< specification of every target
  std::size_t image_bytes() const;        ///< image_shape().bytes()
  std::size_t target_bytes() const;       ///< target_spec().bytes()
  bool in_memory() const;                 ///< whether the caller may call `image` and `targets`

  /// Decodes an evenly spread sample of the records, and returns the fraction of image bytes that are not zero. The
  /// result is equal in all processes that open the same records. Errors: as `read`.
  float density() const;

  /// CRC32C over the length and the stored data checksum of every record, in order. Datasets with the same records in
  /// the same order have equal fingerprints, even if the records are divided differently among their files.
  std::uint32_t fingerprint() const;

  /// [rank] Number of the first record in the rank's share of the files (file_share). Errors: usage (the share of a
  /// rank has no file or no records).
  std::vector<std::uint64_t> shares_of_files(int tower_count) const;

  /// The file that holds a record, and the record's number in this file.
  struct Place {
    std::string path;
    std::size_t number;
  };
  Place place_of(std::size_t i) const;
  /// Returns the name of record i in error messages: "<path>: record <number in the file>".
  std::string name_of(std::size_t i) const;

  /// Returns the image of record i, which has `image_bytes()` bytes and stays valid as long as the dataset exists.
  /// Requires in_memory().
  const std::uint8_t* image(std::size_t i) const;
  /// Returns the targets of all records, [size()] of `target_bytes()` each. Requires in_memory().
  std::span<const std::byte> targets() const;
  /// Returns the target of record i. Requires in_memory().
  std::span<const std::byte> target(std::size_t i) const {
    return targets().subspan(i * target_bytes(), target_bytes());
  }

  /// Compares record i in memory with the checksum that `open` computed when it decoded the record. Requires
  /// in_memory(). Errors: failed (the memory of the record has changed; the message names file and record).
  void check_unchanged(std::size_t i) const;

  /// From now on, `read` replaces a damaged or unsuitable record i (ExitCode::data) by the next sound record in the
  /// order i + 1, i + 2, ... Record 0 follows the last record. All processes choose the same record. `warn` receives
  /// the error text once per damaged record, on any thread, one call at a time. Must be called before threads call
  /// `read`. Not allowed if the dataset is in memory.
  void skip_damaged(std::function<void(const std::string&)> warn);
  /// Number of different records that `read` and `read_target` have skipped so far.
  std::size_t skipped_count() const;

  /// A hint: records will be read in random order. If the files exceed half of the host's memory, this function turns
  /// off the kernel's read-ahead. Otherwise it does nothing. Not allowed if the dataset is in memory.
  void expect_random_order() const;

  /// A hint: these records (ascending numbers) will be read soon. Reads their bytes from the file system in advance.
  /// Adjacent records are read together. Ignores read errors and returns early if `stop` is requested. Not allowed if
  /// the dataset is in memory.
  void fetch(std::span<const std::uint32_t> records, const std::stop_token& stop) const;

  /// Decodes record i as the sample with the stream position `position` (core/sample.h) into `image` (image_bytes()
  /// long) and `target` (target_bytes() long). If the dataset is in memory, copies image and target, and ignores
  /// `position`. Thread-safe. Errors: data (the record is damaged; the message contains file, record number and byte
  /// offset). After skip_damaged, this error occurs only if no record is sound. If the dataset is in memory, the only
  /// error is the error of check_unchanged.
  void read(std::size_t i, std::uint64_t position, std::span<std::uint8_t> image, std::span<std::byte> target) const;

  /// Writes the target of record i to `target` (target_bytes() long), without decoding its image. If the record is
  /// damaged and skip_damaged was called, warns about the record and returns false. Thread-safe. Errors: data (record i
  /// is damaged, and skip_damaged was not called); failed (as for check_unchanged).
  bool read_target(std::size_t i, std::span<std::byte> target) const;

 private:
  struct Storage;
  explicit Dataset(std::unique_ptr<Storage> storage);
  std::unique_ptr<Storage> storage_;
};

}  // namespace carillon
