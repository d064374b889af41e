// Reads and writes files of named arrays for other programs: numpy's npz and Hugging Face's safetensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "carillon/core/file.h"
#include "src/checkpoint/named_arrays.h"

namespace carillon {

// npz: reads and writes numpy's format, a zip file of .npy files.
//
//   numpy.load("arrays.npz")["variables/layer1/weights"]
//
// Writes float32, row-major, little endian, uncompressed. Equal arrays result in equal bytes. Reads float32 and float64
// arrays from files of numpy.savez and savez_compressed, and rounds float64 to float32. Source: numpy's format
// specification (numpy.lib.format), versions 1 to 3.

/// Maximal length of the header before the values of an array.
inline constexpr std::size_t max_npy_header_bytes = 65536;

/// Writes the file and replaces an old one atomically. Errors: io (path, cause).
void write_npz(const std::filesystem::path& path, std::span<const ListedArray> arrays);

/// Reads the arrays in the order of the file. Errors: no_input (the file does not exist), data (the file is not an npz
/// file or is damaged; an array has another type or column-major order; the arrays and headers together have more than
/// `max_bytes` bytes), io. The messages name the file and the array.
std::vector<NamedArray> read_npz(const std::filesystem::path& path, std::uint64_t max_bytes);

// safetensors: reads and writes Hugging Face's format for named arrays. https://github.com/huggingface/safetensors
//
//   8 bytes   length n of the header, little endian
//   n bytes   JSON: {"NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [BEGIN, END]}, ...}
//   data      row-major, little endian; offsets count from here. The arrays fill the data without gaps or overlaps.
//
// The header may have a member "__metadata__", an object with texts as values. The reader ignores this member.

/// Programs refuse longer headers. The header of a network with 10,000 arrays has about 1 MiB.
inline constexpr std::uint64_t max_safetensors_header_bytes = std::uint64_t{4} << 20;

/// An array in a safetensors file.
struct SafetensorsEntry {
  std::string name;
  std::string type;  ///< type name of the format: "F32", "BF16", "I64"
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;  ///< byte offsets from the start of the data
};

class SafetensorsFile {
 public:
  /// Reads and checks the whole header. Allocates no more than a small multiple of max_safetensors_header_bytes.
  /// Errors: no_input (the file does not exist), data (the file is not a safetensors file, is damaged or is truncated),
  /// io. The messages name the file.
  explicit SafetensorsFile(const std::filesystem::path& path);

  /// Returns the entries in the order of their data.
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  /// Returns the values of an F32, F16 or BF16 entry as float32. Errors: data (the entry has another type; the file has
  /// changed), io.
  NamedArray read(const SafetensorsEntry& entry) const;

 private:
  std::filesystem::path path_;
  Descriptor file_;
  std::uint64_t data_begin_ = 0;
  std::vector<SafetensorsEntry> entries_;
};

/// Writes the arrays as F32 in their order, with the metadata {"format": "pt"}, and replaces an old file atomically.
/// Equal arrays result in equal bytes. Errors: io (path, cause); usage (the header would be longer than
/// max_safetensors_header_bytes).
void write_safetensors(const std::filesystem::path& path, std::span<const NamedArray> arrays);

}  // namespace carillon
