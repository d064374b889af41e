// Predictions file: the most probable classes of each record, as a CSV file (RFC 4180).
// Columns: docs/developer-guide/file-formats.md.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "src/tasks/prediction_metric.h"

namespace carillon {

/// Where a record comes from.
struct RecordOrigin {
  std::string file;          ///< path
  std::size_t number = 0;    ///< in the file, from 0
  std::string picture = {};  ///< name of the picture that it was made from; empty: unknown
};

/// Checks that the file can be written; changes nothing. Errors: usage (the name does not end in .csv), io.
void check_predictions_place(const std::filesystem::path& path);

/// Writes the whole file or nothing. `class_names`: by class; empty: the numbers of the classes. Errors: io.
void write_predictions(const std::filesystem::path& path, const Predictions& predictions,
                       const std::function<RecordOrigin(std::size_t)>& origin_of,
                       std::span<const std::string> class_names);

}  // namespace carillon
