// Source formats of MNIST and CIFAR-10, for tfrecord_convert.
#pragma once

#include <filesystem>
#include <vector>

#include "src/data/convert/shard_writer.h"

namespace carillon {

// MNIST source format: IDX files, plain or GZIP (http://yann.lecun.com/exdb/mnist/), big endian.
// Image files (train-images-idx3-ubyte, t10k-images-idx3-ubyte):
//   u32 0x00000803 | u32 count | u32 28 | u32 28 | count x 784 pixels.
// Label files (train-labels-idx1-ubyte, t10k-labels-idx1-ubyte):
//   u32 0x00000801 | u32 count | count x 1 label, 0 to 9.
// Fashion-MNIST has the same format.

/// Reads the splits "train" and "test" from the four files in `directory` or in folders up to two levels deep. The
/// files are named as above, or as programs and relatives of MNIST name them: train-images.idx3-ubyte,
/// emnist-digits-test-images-idx3-ubyte. They may be compressed (SourceFile).
/// Errors: no_input; data (two files for the same content; wrong magic number, dimensions or counts, missing or
/// trailing bytes, a label above 9).
std::vector<ImageSplit> read_mnist(const std::filesystem::path& directory);

/// Writes the features image_raw (bytes, 784, row-major 28 x 28), pixels (int64, the pixel count) and label (int64).
void encode_mnist(const ImageSplit& split, std::size_t i, proto::Example& example);

// CIFAR-10 source format: the binary version (https://www.cs.toronto.edu/~kriz/cifar.html), as a folder or a tar
// archive. The files are data_batch_1.bin ... data_batch_5.bin (train) and test_batch.bin (test). A file is a sequence
// of records:
//   u8 label, 0 to 9 | 1024 x u8 red | 1024 x u8 green | 1024 x u8 blue, each plane row-major 32 x 32

/// Reads the splits "train" and "test". `input` is the folder of the six files, its parent (with the files in
/// cifar-10-batches-bin), or an archive that has them in any folder: .tar, .tar.gz, .tar.xz, .tar.bz2 or .tar.zst.
/// Errors: no_input; data (not a tar archive; a zip file; damage; a missing or duplicate file; a file size that is not
/// a multiple of the record size; a label above 9).
std::vector<ImageSplit> read_cifar10(const std::filesystem::path& input);

/// Writes the features image (bytes, 3072: planes red, green, blue, each row-major 32 x 32) and label (int64).
void encode_cifar10(const ImageSplit& split, std::size_t i, proto::Example& example);

}  // namespace carillon
