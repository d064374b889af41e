// DatasetInfo: what a converter says of a set's records in a file beside them, records.json (docs/formats.md).
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "carillon/data/example.h"

namespace carillon {

/// Pictures in JPEG or PNG files, with labels.
struct DatasetInfo {
  ExampleKeys keys = {.image = "image/encoded", .label = "image/class/label"};
  std::int64_t first_label = 1;      ///< of the first class
  std::vector<std::string> classes;  ///< their names, in the order of their labels

  bool operator==(const DatasetInfo& other) const {
    return keys.image == other.keys.image && keys.label == other.keys.label && first_label == other.first_label &&
           classes == other.classes;
  }
};

inline constexpr const char* dataset_info_name = "records.json";
inline constexpr std::size_t max_classes = 100'000;

/// That of the directory; nothing where it has none. Errors: data (another file of that name), io.
std::optional<DatasetInfo> read_dataset_info(const std::filesystem::path& directory);

/// That of the files that `patterns` name; nothing where none is beside them. Errors: as Dataset::open's of patterns;
/// as above; data (files of different forms).
std::optional<DatasetInfo> dataset_info_of_files(std::span<const std::string> patterns);

/// Writes the form, and labels.txt, a class a line. Errors: io.
void write_dataset_info(const std::filesystem::path& directory, const DatasetInfo& form);

}  // namespace carillon
