// Shards: a split of a labelled image set (train, test), written as TFRecord files <split>-00000-of-0000N.tfrecord.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "carillon/core/file.h"
#include "data/records/example.pb.h"

namespace carillon {

/// Images of one size with their labels, in source order.
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

/// Records that are still to be made.
struct SplitSize {
  std::string name;
  std::size_t count = 0;
};

/// Makes record `i`; false: there is none after all. Called for each once, in order.
using RecordMaker = std::function<bool(std::size_t i, std::string& record)>;

/// Fills an empty Example with image `i` of a split: what tells one source format's records from another's.
using ExampleEncoder = std::function<void(const ImageSplit& split, std::size_t i, proto::Example& example)>;

struct WrittenSplit {
  std::vector<std::filesystem::path> files;
  std::size_t record_count = 0;
  std::uint64_t bytes = 0;
};

/// Refuses, before anything is written, a shard count that does not suit the splits and an output directory with
/// shards of another count, whose records a pattern like train-* would take in twice. Errors: usage.
void check_shards(std::span<const SplitSize> splits, std::size_t shard_count, const std::filesystem::path& directory);
void check_shards(std::span<const ImageSplit> splits, std::size_t shard_count, const std::filesystem::path& directory);

/// A split whose files are written and synced, under temporary names, which no pattern for shards matches.
struct CompleteSplit {
  WrittenSplit written;
  std::vector<std::unique_ptr<NewFile>> files;
};

/// Writes `split` as `shard_count` files of contiguous records, equal in number but for one and those that there are
/// not. `progress(done)` is called now and then. Errors: io; those of `make`.
CompleteSplit make_shards(const SplitSize& split, std::size_t shard_count, const std::filesystem::path& directory,
                          const RecordMaker& make, const std::function<void(std::size_t)>& progress);
/// Gives the files of all splits their names. Errors: io.
void publish(std::span<CompleteSplit> splits, const std::filesystem::path& directory);

/// Both, for one split of images.
WrittenSplit write_shards(const ImageSplit& split, std::size_t shard_count, const std::filesystem::path& directory,
                          const ExampleEncoder& encode, const std::function<void(std::size_t)>& progress);

}  // namespace carillon
