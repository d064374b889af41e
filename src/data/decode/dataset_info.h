// DatasetInfo: description of a dataset's records, which a converter writes to the file records.json in the folder of
// the records (docs/developer-guide/file-formats.md).
#pragma once

#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/core/file.h"
#include "carillon/core/sample.h"
#include "carillon/data/record.h"
#include "carillon/images/decode.h"

namespace carillon {

/// JPEG or PNG files with targets.
struct DatasetInfo {
  ExampleKeys keys = {.image = "image/encoded", .label = "image/class/label"};
  std::int64_t first_label = 1;  ///< the number in a record that means class 0 or label 0; only for
                                 ///< TargetKind::class_index and TargetKind::labels
  std::vector<std::string>
      classes;  ///< names of the classes, labels or numbers; classes and labels are in the order of their label numbers
  Colour background = {};  ///< colour that replaced transparent pixels in the conversion
  TargetKind target = TargetKind::class_index;
  /// [number] Scales that were computed from the training records. Empty unless `target` is TargetKind::numbers.
  std::vector<NumberScale> scales = {};

  bool operator==(const DatasetInfo& other) const {
    return keys.image == other.keys.image && keys.label == other.keys.label && first_label == other.first_label &&
           classes == other.classes && background == other.background && target == other.target &&
           scales == other.scales;
  }
};

/// The feature that holds the numbers of a regression.
inline constexpr const char* numbers_key = "image/numbers";

/// A kind of target and the name of its task in options and files. Messages use `word` for one output and `words` for
/// several outputs.
struct NamedTask {
  TargetKind target;
  std::string_view task, word, words;
};
inline constexpr std::array named_tasks{NamedTask{TargetKind::class_index, "classification", "class", "classes"},
                                        NamedTask{TargetKind::labels, "multilabel", "label", "labels"},
                                        NamedTask{TargetKind::numbers, "regression", "number", "numbers"}};
std::string_view task_name(TargetKind target);
/// Returns "class", "label" or "number".
std::string_view target_word(TargetKind target);
/// Returns "classes", "labels" or "numbers".
std::string_view target_words(TargetKind target);
/// Returns the kind of target of the task with this name, or nullopt if there is no such task.
std::optional<TargetKind> target_of_task(std::string_view task);

/// Returns the name of the class with this label. If `info` does not contain a name, returns the label as text.
std::string class_text(std::int64_t label, const std::optional<DatasetInfo>& info);

inline constexpr const char* dataset_info_name = "records.json";
inline constexpr const char* class_names_file = "labels.txt";
inline constexpr std::size_t max_classes = 100'000;

/// Makes one scale from each mean and its deviation. Throws std::runtime_error unless there are `count` means and
/// `count` deviations, all are finite, and all deviations are above 0.
std::vector<NumberScale> scales_from(std::span<const double> means, std::span<const double> deviations,
                                     std::size_t count);

/// Reads the description in `directory`, or returns an empty result if there is none. Errors: data (the contents of the
/// file are not a description), io.
std::optional<DatasetInfo> read_dataset_info(const std::filesystem::path& directory);

/// Returns the description of the files that match `patterns`, or an empty result if none of their directories has a
/// description. Errors: see Dataset::open (for patterns) and read_dataset_info; data (the directories' descriptions
/// differ).
std::optional<DatasetInfo> dataset_info_of_files(std::span<const std::string> patterns);

/// Checks that read_dataset_info would accept the file that make_dataset_info writes for `info`. Errors: data.
void check_dataset_info(const DatasetInfo& info);
/// Writes records.json, and labels.txt with one class per line. The written files are complete, and have temporary
/// names until another function publishes them. Errors: io; see check_dataset_info.
std::vector<std::unique_ptr<NewFile>> make_dataset_info(const std::filesystem::path& directory,
                                                        const DatasetInfo& info);

}  // namespace carillon
