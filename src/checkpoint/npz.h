// npz: arrays in numpy's format, a zip file of .npy files, for exchange with Python.
//
//   numpy.load("arrays.npz")["variables/layer1/weights"]
//
// Written: float32, row-major, little endian, uncompressed; equal arrays give equal bytes. Read: the same, and float64,
// which is rounded to float32, compressed or not, as numpy.savez and savez_compressed write them. Source: numpy's
// format specification (numpy.lib.format), versions 1 to 3.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "src/checkpoint/named_arrays.h"

namespace carillon {

/// What lies before the values of an array at most.
inline constexpr std::size_t max_npy_header_bytes = 65536;

/// Puts the file in place of an old one in one step. Errors: io (path, cause).
void write_npz(const std::filesystem::path& path, std::span<const ListedArray> arrays);

/// In the order of the file. Errors, naming the file and the array: no_input, data (no npz, a damaged one, an array of
/// another type or in column order, more than `max_bytes` of arrays with their headers), io.
std::vector<NamedArray> read_npz(const std::filesystem::path& path, std::uint64_t max_bytes);

}  // namespace carillon
