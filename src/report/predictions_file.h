// Predictions file: targets and predictions of each record, as a CSV file (RFC 4180).
// Columns: docs/developer-guide/file-formats.md.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "src/tasks/predictions.h"
#include "src/tasks/regression.h"
#include "src/tasks/stored_samples.h"

namespace carillon {

/// Where a record comes from.
struct RecordOrigin {
  std::string file;          ///< path
  std::size_t number = 0;    ///< in the file, from 0
  std::string picture = {};  ///< name of the picture that it was made from; empty: unknown
};

/// Checks that the file can be written; changes nothing. Errors: usage (the name does not end in .csv), io.
void check_predictions_place(const std::filesystem::path& path);

/// The columns of the file after those of the origin.
struct PredictionTable {
  std::vector<std::string> columns;
  std::size_t record_count = 0;
  std::function<std::vector<std::string>(std::size_t record)> cells;  ///< one for each column
};

// Tables of each task. `names`: of the classes, labels or numbers; empty: their numbers. The arguments must outlive the
// table.
/// True and predicted class, and the most probable classes with their probabilities.
PredictionTable class_table(const Predictions& predictions, std::span<const std::string> names);
/// True and predicted labels, separated by `;`, and the probability of each label.
PredictionTable label_table(const StoredSamples& samples, std::span<const std::string> names);
/// True and predicted value of each number.
PredictionTable number_table(const RegressionMetric& metric, std::span<const std::string> names);

/// Writes the whole file or nothing. Errors: io.
void write_predictions(const std::filesystem::path& path, const PredictionTable& table,
                       const std::function<RecordOrigin(std::size_t)>& origin_of);

}  // namespace carillon
