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

/// When a dataset decodes its records: all of them at the start, into memory, or each one when it is read.
enum class CacheMode {
  automatic,  ///< memory if the decoded dataset fits in half of the available memory, otherwise none; none if the
              ///< decoder draws random numbers or is slow
  memory,     ///< decode the whole dataset once, when it is opened
  none,       ///< keep an index of offsets; decode on every read (plain files only, GZIP has no random access)
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
  /// `known`: index entries of the files, by path, used only without the cache. `open` ignores the entry of a file that
  /// has changed since the entry was made. If `known` is empty, `open` uses the index files in the directories of the
  /// data files.
  /// Errors: no_input (a pattern without a match, no file); io; data (a damaged or unsuitable record, named by file,
  /// record number and byte offset; a dataset without records; a fault that the decoder's find_fault found); usage
  /// (CacheMode::memory with a decoder that draws random numbers; a GZIP file that is not cached). CacheMode::automatic
  /// does not cache if the decoder draws random numbers or is slow, or if the decoded dataset needs more than this
  /// process's share of half of the available memory.
  /// `damaged`: pass DamagedSamples::ignore if skip_damaged will be called.
  static Dataset open(std::span<const std::string> patterns, std::shared_ptr<const RecordDecoder> decoder,
                      CacheMode cache = CacheMode::automatic, int local_rank_count = 1, FileIndex known = {},
                      DamagedSamples damaged = DamagedSamples::refuse);

  /// True if `open` would decode these files into memory. With CacheMode::automatic this is an estimate from their
  /// first records and the memory that is available now; `open` may decide differently. Errors: as `open`.
  static bool would_cache(const std::vector<std::string>& paths, const RecordDecoder& decoder, CacheMode cache,
                          int local_rank_count);

  /// A dataset of noise images in memory, for benchmarks without data files. `decoder` determines the shapes and the
  /// synthetic targets. The dataset is equal in all processes. The dataset has as many images as fit in 128 MiB, but at
  /// least 64 and at most 10,000.
  static Dataset synthetic(std::shared_ptr<const RecordDecoder> decoder);

  Dataset(Dataset&&) noexcept;
  Dataset& operator=(Dataset&&) noexcept;
  ~Dataset();

  std::size_t size() const;               ///< number of records, M; at least 1
  const ImageShape& image_shape() const;  ///< shape of every decoded image
  const TargetSpec& target_spec() const;  ///< specification of every target
  std::size_t image_bytes() const;        ///< image_shape().bytes()
  std::size_t target_bytes() const;       ///< target_spec().bytes()
  bool in_memory() const;                 ///< whether `image` and `targets` may be called

  /// Decodes an evenly spread sample of the records, and returns the fraction of image bytes that are not zero. The
  /// result is equal in all processes that open the same records. Errors: as `read`.
  float density() const;

  /// CRC32C over the length and the stored data checksum of every record, in order. Datasets with the same records in
  /// the same order have equal fingerprints, even if the records are divided differently among their files.
  std::uint32_t fingerprint() const;

  /// [rank] Number of the first record in the rank's share of the files (file_share). Errors: usage (a rank without a
  /// file or without records).
  std::vector<std::uint64_t> shares_of_files(int tower_count) const;

  /// The file that holds a record, and the record's number in this file.
  struct Place {
    std::string path;
    std::size_t number;
  };
  Place place_of(std::size_t i) const;
  /// The name of record i in error messages: "<path>: record <number in the file>".
  std::string name_of(std::size_t i) const;

  /// Image of record i, `image_bytes()` long, valid as long as the dataset. Requires in_memory().
  const std::uint8_t* image(std::size_t i) const;
  /// The targets of all records, [size()] of `target_bytes()` each. Requires in_memory().
  std::span<const std::byte> targets() const;
  /// The target of record i. Requires in_memory().
  std::span<const std::byte> target(std::size_t i) const {
    return targets().subspan(i * target_bytes(), target_bytes());
  }

  /// Compares record i in memory with the checksum that `open` computed when it decoded the record. Requires
  /// in_memory(). Errors: failed (a memory error; names file and record).
  void check_unchanged(std::size_t i) const;

  /// From now on, `read` replaces a damaged or unsuitable record i (ExitCode::data) by the next sound record in the
  /// order i + 1, i + 2, ... Record 0 follows the last record. All processes choose the same record. `warn` receives
  /// the error text once per damaged record, on any thread, one call at a time. Must be called before threads call
  /// `read`. Not allowed if the dataset is in memory.
  void skip_damaged(std::function<void(const std::string&)> warn);
  /// Number of different records that `read` and `read_target` skipped.
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
  /// `position`. Thread-safe. Errors: data (damage; the message contains file, record number and byte offset); after
  /// skip_damaged, only if no record is sound. If the dataset is in memory, the only error is the error of
  /// check_unchanged.
  void read(std::size_t i, std::uint64_t position, std::span<std::uint8_t> image, std::span<std::byte> target) const;

  /// Writes the target of record i to `target` (target_bytes() long), without decoding its image. If the record is
  /// damaged and skip_damaged was called, warns about the record and returns false. Thread-safe. Errors: data (record i
  /// is damaged, and skip_damaged was not called); failed, as check_unchanged.
  bool read_target(std::size_t i, std::span<std::byte> target) const;

 private:
  struct Storage;
  explicit Dataset(std::unique_ptr<Storage> storage);
  std::unique_ptr<Storage> storage_;
};

}  // namespace carillon
