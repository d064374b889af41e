// npz: reads and writes numpy's format, a zip file of .npy files.
//
//   numpy.load("arrays.npz")["variables/layer1/weights"]
//
// Writes float32, row-major, little endian, uncompressed. Equal arrays give equal bytes. Reads files of numpy.savez and
// savez_compressed with float32 and float64 arrays, and rounds float64 to float32. Source: numpy's format specification
// (numpy.lib.format), versions 1 to 3.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "src/checkpoint/named_arrays.h"

namespace carillon {

/// Maximal length of the header before the values of an array.
inline constexpr std::size_t max_npy_header_bytes = 65536;

/// Writes the file and replaces an old one atomically. Errors: io (path, cause).
void write_npz(const std::filesystem::path& path, std::span<const ListedArray> arrays);

/// Reads the arrays in the order of the file. Errors name the file and the array: no_input, data (not an npz file,
/// damaged, an array of another type or in column-major order, arrays and headers above `max_bytes`), io.
std::vector<NamedArray> read_npz(const std::filesystem::path& path, std::uint64_t max_bytes);

}  // namespace carillon
