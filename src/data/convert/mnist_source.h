// MNIST source format: IDX files, plain or GZIP (http://yann.lecun.com/exdb/mnist/), big endian.
// Image files (train-images-idx3-ubyte, t10k-images-idx3-ubyte):
//   u32 0x00000803 | u32 count | u32 28 | u32 28 | count x 784 pixels.
// Label files (train-labels-idx1-ubyte, t10k-labels-idx1-ubyte):
//   u32 0x00000801 | u32 count | count x 1 label, 0 to 9.
// Fashion-MNIST has the same format.
#pragma once

#include <filesystem>
#include <vector>

#include "src/data/convert/shard_writer.h"

namespace carillon {

/// Reads the splits "train" and "test" from the four files in `directory`, named as above or with the suffix .gz.
/// Errors: no_input; data (wrong magic number, dimensions or counts, missing or trailing bytes, a label above 9).
std::vector<ImageSplit> read_mnist(const std::filesystem::path& directory);

/// Writes the features image_raw (bytes, 784, row-major 28 x 28), pixels (int64, the pixel count) and label (int64).
void encode_mnist(const ImageSplit& split, std::size_t i, proto::Example& example);

}  // namespace carillon
