// Shard writer: writes a split (train, test) of a labelled image dataset as TFRecord files
// <split>-00000-of-0000N.tfrecord.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/core/file.h"
#include "data/records/example.pb.h"

namespace carillon {

/// Fixed-size images and their labels, in source order.
struct ImageSplit {
  std::string name;                  ///< "train" or "test"
  std::size_t image_bytes = 0;       ///< per image
  std::vector<std::uint8_t> images;  ///< [count][image_bytes]
  std::vector<std::uint8_t> labels;  ///< [count]

  std::size_t count() const { return labels.size(); }
  std::span<const std::uint8_t> image(std::size_t i) const {
    return std::span(images).subspan(i * image_bytes, image_bytes);
  }
};

/// Name and record count of a split before it is written.
struct SplitSize {
  std::string name;
  std::size_t count = 0;
};

/// Creates record `i`; returns false if the record is skipped. Called once per record, in order.
using RecordMaker = std::function<bool(std::size_t i, std::string& record)>;

/// Fills an empty Example with image `i` of a split. Each source format has its own encoder.
using ExampleEncoder = std::function<void(const ImageSplit& split, std::size_t i, proto::Example& example)>;

struct WrittenSplit {
  std::vector<std::filesystem::path> files;
  std::size_t record_count = 0;
  std::uint64_t bytes = 0;
};

/// Checks shard count and output directory before anything is written. Errors: usage (the shard count does not suit the
/// splits; the directory contains shards of another shard count, whose records a pattern like train-* would read too).
void check_shards(std::span<const SplitSize> splits, std::size_t shard_count, const std::filesystem::path& directory);
void check_shards(std::span<const ImageSplit> splits, std::size_t shard_count, const std::filesystem::path& directory);

/// Whether a file of this name is a shard of the split: train-00000-of-00001.tfrecord.
bool is_shard_of(std::string_view name, std::string_view split);
/// Whether a file of this name is a shard of any split.
bool is_shard(std::string_view name);

/// A split that is completely written. Its files are synced and have temporary names, which no shard pattern matches.
struct CompleteSplit {
  WrittenSplit written;
  std::vector<std::unique_ptr<NewFile>> files;
};

/// Writes `split` as `shard_count` files of consecutive records. If no record is skipped, the record counts of the
/// files differ by at most one. Calls `progress(done)` from time to time. Errors: io; as `make`.
CompleteSplit make_shards(const SplitSize& split, std::size_t shard_count, const std::filesystem::path& directory,
                          const RecordMaker& make, const std::function<void(std::size_t)>& progress);
/// Renames the files of all splits to their final names. Errors: io.
void publish(std::span<CompleteSplit> splits);

/// make_shards and publish for one split of images.
WrittenSplit write_shards(const ImageSplit& split, std::size_t shard_count, const std::filesystem::path& directory,
                          const ExampleEncoder& encode, const std::function<void(std::size_t)>& progress);

}  // namespace carillon
