// CIFAR-10's source format: the binary version (https://www.cs.toronto.edu/~kriz/cifar.html), as a folder or a tar
// archive of data_batch_1.bin ... data_batch_5.bin (train) and test_batch.bin (test). A file is any number of records:
//   u8 label, 0 to 9 | 1024 x u8 red | 1024 x u8 green | 1024 x u8 blue, each plane row-major 32 x 32
#pragma once

#include <filesystem>
#include <vector>

#include "src/data/convert/shard_writer.h"

namespace carillon {

/// Reads the splits "train" and "test" from `input`: the folder of the six files, its parent (where they lie in
/// cifar-10-batches-bin), or an archive with them in any folder, plain .tar or compressed (.tar.gz, .xz, .bz2, .zst).
/// Errors: no_input, data (no tar archive, a zip file, damage, a file missing in it or there twice, a
/// size that is no whole number of records, a label above 9).
std::vector<ImageSplit> read_cifar10(const std::filesystem::path& input);

/// Features image (bytes, 3072: planes red, green, blue, each row-major 32 x 32) and label (int64).
void encode_cifar10(const ImageSplit& split, std::size_t i, proto::Example& example);

}  // namespace carillon
