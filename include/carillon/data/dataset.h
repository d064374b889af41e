// Dataset: images of one fixed size with their targets, from the records of TFRecord files, addressed by record number.
//
// Record i of M (0 <= i < M) counts through the files in the order in which they are named (a pattern's matches
// sorted by name), and through each file in its own order. A record is bytes, of any length, until the set's decoder
// makes an image and a target of it. Every record's framing is checked when the set is opened; checksums and contents
// are checked when a record is decoded: at opening with the cache, at `read` without.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "carillon/core/image_shape.h"
#include "carillon/data/cache_mode.h"
#include "carillon/data/decoder.h"
#include "carillon/data/index_file.h"

namespace carillon {

/// Files [begin, end) of a set, one tower's share of all.
struct FileShare {
  std::size_t begin, end;
};
constexpr FileShare file_share(std::size_t file_count, int tower, int tower_count) {
  const auto at = [&](int number) {
    return file_count * static_cast<std::size_t>(number) / static_cast<std::size_t>(tower_count);
  };
  return {at(tower), at(tower + 1)};
}

class Dataset {
 public:
  /// Opens every file that `patterns` (paths or globs) match.
  /// `local_rank_count`: the processes on this machine that open the same set, among which its memory is shared out.
  /// `known`: where records are, by their files' paths, for a set that is not cached; empty: index files beside them
  /// are asked. Errors: no_input (a pattern that matches nothing, no file), data (damage or unsuitable record: file,
  /// record number, byte offset; no records at all; what the decoder finds at fault with the set), usage
  /// (CacheMode::none on a GZIP file, CacheMode::memory with a decoder that draws), io.
  static Dataset open(std::span<const std::string> patterns, std::shared_ptr<const RecordDecoder> decoder,
                      CacheMode cache = CacheMode::automatic, int local_rank_count = 1, FileIndex known = {});

  /// Whether `open` would decode such a set into memory, by the first records. Errors: as of `open`.
  static bool would_cache(const std::vector<std::string>& paths, const RecordDecoder& decoder, CacheMode cache,
                          int local_rank_count);

  /// Images of noise, with `decoder`'s shapes and synthetic targets, in memory, for measurements without data files.
  /// The same in each process. From 64 to 10,000 images, about 128 MiB.
  static Dataset synthetic(std::shared_ptr<const RecordDecoder> decoder);

  Dataset(Dataset&&) noexcept;
  Dataset& operator=(Dataset&&) noexcept;
  ~Dataset();

  std::size_t size() const;               ///< M, at least 1
  const ImageShape& image_shape() const;  ///< of every decoded image
  const TargetSpec& target_spec() const;  ///< of every target
  std::size_t image_bytes() const;        ///< image_shape().bytes()
  std::size_t target_bytes() const;       ///< target_spec().bytes()
  bool in_memory() const;                 ///< whether `image` and `targets` may be called

  /// The share of the images' bytes that are not zero, of a sample of records spread evenly: the same wherever the same
  /// records are opened. Decodes the sample. Errors: as `read`.
  float density() const;

  /// CRC32C over every record's length and stored data checksum, in order: equal for equal sets however sharded.
  std::uint32_t fingerprint() const;

  /// By tower, the first record of its share: files F * t / N to F * (t + 1) / N of F. Errors: usage (a tower without
  /// a file, or without a record).
  std::vector<std::uint64_t> shares_of_files(int tower_count) const;

  /// "<path>: record <number in that file>": record i as errors name it.
  std::string name_of(std::size_t i) const;

  /// Image of record i, `image_bytes()` long, alive as long as the dataset. Requires in_memory().
  const std::uint8_t* image(std::size_t i) const;
  /// The targets of all records, [size()] of `target_bytes()` each. Requires in_memory().
  std::span<const std::byte> targets() const;
  /// The target of record i. Requires in_memory().
  std::span<const std::byte> target(std::size_t i) const {
    return targets().subspan(i * target_bytes(), target_bytes());
  }

  /// From now on `read` takes the next record that is sound in place of a damaged or unsuitable one, whatever process
  /// it is in; the first time, `warn` hears what is wrong with it, from any thread. Requires that the set is not in
  /// memory.
  void skip_damaged(std::function<void(const std::string&)> warn);
  /// Of the records that `read` was asked for, those so passed over, each once.
  std::size_t skipped_count() const;

  /// A hint: records will be read in random order. Where the files will not all stay in memory, the kernel then reads
  /// each record alone; elsewhere, what lies beside one is soon wanted too. Requires that the set is not in memory.
  void expect_random_order() const;

  /// A hint: the files' bytes of these records, whose numbers ascend, will be read soon; reads them from the file
  /// system, neighbours in one go. Passes over what cannot be read, silently, and ends where `stop` is asked for.
  /// Requires that the set is not in memory.
  void fetch(std::span<const std::uint32_t> records, const std::stop_token& stop) const;

  /// Decodes record i, the sample at stream position `position`, into `image` (image_bytes() long) and `target`
  /// (target_bytes() long). Any mode. Safe from several threads. Errors: data (file, record number, byte offset); with
  /// skip_damaged, if no record is sound.
  void read(std::size_t i, std::uint64_t position, std::span<std::uint8_t> image, std::span<std::byte> target) const;

 private:
  struct Storage;
  explicit Dataset(std::unique_ptr<Storage> storage);
  std::unique_ptr<Storage> storage_;
};

}  // namespace carillon
