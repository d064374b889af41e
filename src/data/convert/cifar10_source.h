// CIFAR-10 source format: the binary version (https://www.cs.toronto.edu/~kriz/cifar.html), as a folder or a tar
// archive. The files are data_batch_1.bin ... data_batch_5.bin (train) and test_batch.bin (test). A file is a sequence
// of records:
//   u8 label, 0 to 9 | 1024 x u8 red | 1024 x u8 green | 1024 x u8 blue, each plane row-major 32 x 32
#pragma once

#include <filesystem>
#include <vector>

#include "src/data/convert/shard_writer.h"

namespace carillon {

/// Reads the splits "train" and "test". `input` is the folder of the six files, its parent (with the files in
/// cifar-10-batches-bin), or an archive that has them in any folder: .tar, .tar.gz, .tar.xz, .tar.bz2 or .tar.zst.
/// Errors: no_input; data (not a tar archive, a zip file, damage, a missing or duplicate file, a size that is not a
/// whole number of records, a label above 9).
std::vector<ImageSplit> read_cifar10(const std::filesystem::path& input);

/// Writes the features image (bytes, 3072: planes red, green, blue, each row-major 32 x 32) and label (int64).
void encode_cifar10(const ImageSplit& split, std::size_t i, proto::Example& example);

}  // namespace carillon
