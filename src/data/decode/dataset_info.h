// DatasetInfo: description of a dataset's records, written by a converter to the file records.json next to them
// (docs/developer-guide/file-formats.md).
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "carillon/data/example.h"
#include "carillon/images/decode.h"

namespace carillon {

/// JPEG or PNG files with labels.
struct DatasetInfo {
  ExampleKeys keys = {.image = "image/encoded", .label = "image/class/label"};
  std::int64_t first_label = 1;      ///< label of the first class
  std::vector<std::string> classes;  ///< class names, in the order of their labels
  Colour background = {};            ///< behind pixels that were transparent before the conversion

  bool operator==(const DatasetInfo& other) const {
    return keys.image == other.keys.image && keys.label == other.keys.label && first_label == other.first_label &&
           classes == other.classes && background == other.background;
  }
};

/// The name of the class with this label; the number if `info` is empty or names no such class.
std::string class_text(std::int64_t label, const std::optional<DatasetInfo>& info);

inline constexpr const char* dataset_info_name = "records.json";
inline constexpr std::size_t max_classes = 100'000;

/// Reads the description in `directory`; empty if there is none. Errors: data (the file has other contents), io.
std::optional<DatasetInfo> read_dataset_info(const std::filesystem::path& directory);

/// Description of the files that match `patterns`; empty if no directory has one. Errors: as Dataset::open for
/// patterns; as read_dataset_info; data (the directories' descriptions differ).
std::optional<DatasetInfo> dataset_info_of_files(std::span<const std::string> patterns);

/// Checks that read_dataset_info would accept what write_dataset_info writes. Errors: data.
void check_dataset_info(const DatasetInfo& info);
/// Writes records.json, and labels.txt with one class per line. Errors: io; as check_dataset_info.
void write_dataset_info(const std::filesystem::path& directory, const DatasetInfo& form);

}  // namespace carillon
