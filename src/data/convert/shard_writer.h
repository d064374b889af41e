// Image splits: reads the splits (train, test) of a labelled image dataset from its published files, and writes splits
// as TFRecord files <split>-00000-of-0000N.tfrecord.
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
  std::size_t image_bytes = 0;       ///< bytes per image
  std::vector<std::uint8_t> images;  ///< [count][image_bytes]
  std::vector<std::uint8_t> labels;  ///< [count]

  std::size_t count() const { return labels.size(); }
  std::span<const std::uint8_t> image(std::size_t i) const {
    return std::span(images).subspan(i * image_bytes, image_bytes);
  }
};

/// The name of a split, and the number of its records before it is written.
struct SplitSize {
  std::string name;
  std::size_t count = 0;
};

/// Writes record `i` to `record`; returns false to skip the record. make_shards calls it once per record, in order.
using RecordMaker = std::function<bool(std::size_t i, std::string& record)>;

/// Fills an empty Example with image `i` of a split. Each source format has its own encoder.
using ExampleEncoder = std::function<void(const ImageSplit& split, std::size_t i, proto::Example& example)>;

struct WrittenSplit {
  std::vector<std::filesystem::path> files;
  std::size_t record_count = 0;
  std::uint64_t bytes = 0;
};

/// Checks the number of shards and the output directory before the conversion writes a file. Errors: usage (the shard
/// count does not suit the splits; the directory contains shards of a conversion with another number of shards, which a
/// pattern like train-* would also match).
void check_shards(std::span<const SplitSize> splits, std::size_t shard_count, const std::filesystem::path& directory);
void check_shards(std::span<const ImageSplit> splits, std::size_t shard_count, const std::filesystem::path& directory);

/// True if a file of this name is a shard of the split: train-00000-of-00001.tfrecord.
bool is_shard_of(std::string_view name, std::string_view split);
/// True if a file of this name is a shard of any split.
bool is_shard(std::string_view name);

/// A split that is completely written. Its files are synced and have temporary names, which no shard pattern matches.
struct CompleteSplit {
  WrittenSplit written;
  std::vector<std::unique_ptr<NewFile>> files;
};

/// Writes `split` as `shard_count` files of consecutive records. If no record is skipped, the record counts of the
/// files differ by at most one. Calls `progress(done)` from time to time. Errors: io; the errors of `make`.
CompleteSplit make_shards(const SplitSize& split, std::size_t shard_count, const std::filesystem::path& directory,
                          const RecordMaker& make, const std::function<void(std::size_t)>& progress);
/// Gives the files of all splits, and `others`, their final names in `directory` (replace_together).
void publish(const std::filesystem::path& directory, std::span<CompleteSplit> splits,
             std::vector<std::unique_ptr<NewFile>> others = {});

/// Does the same as make_shards, for a split of images.
CompleteSplit make_image_shards(const ImageSplit& split, std::size_t shard_count,
                                const std::filesystem::path& directory, const ExampleEncoder& encode,
                                const std::function<void(std::size_t)>& progress);

// The published files of MNIST and CIFAR-10. mnist_source.cpp and cifar10_source.cpp describe their formats.

/// Reads the splits "train" and "test" from the four files in `directory` or in folders up to two levels deep. The
/// files have the names in mnist_source.cpp, or names of other programs and of variants of MNIST:
/// train-images.idx3-ubyte, emnist-digits-test-images-idx3-ubyte. The files may be compressed (SourceFile). Errors:
/// no_input (a file is missing); data (two files have the same role; a magic number, a dimension or a count is wrong;
/// bytes are missing or left over; a label is above 9).
std::vector<ImageSplit> read_mnist(const std::filesystem::path& directory);

/// Writes the features image_raw (bytes, 784, row-major 28 x 28), pixels (int64, the pixel count) and label (int64).
void encode_mnist(const ImageSplit& split, std::size_t i, proto::Example& example);

/// Reads the splits "train" and "test". `input` is one of these: the folder of the six files; the parent of this
/// folder, if the folder is named cifar-10-batches-bin; or an archive (.tar, .tar.gz, .tar.xz, .tar.bz2 or .tar.zst)
/// with the files in any folder. Errors: no_input; data (the file is not a tar archive, is a zip file or is damaged; a
/// file is missing or occurs twice; a file size is not a multiple of the record size; a label is above 9).
std::vector<ImageSplit> read_cifar10(const std::filesystem::path& input);

/// Writes the features image (bytes, 3072: planes red, green, blue, each row-major 32 x 32) and label (int64).
void encode_cifar10(const ImageSplit& split, std::size_t i, proto::Example& example);

}  // namespace carillon
