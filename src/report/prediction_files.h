// Files that show the predictions of records: a table of all records (CSV), and a sheet of the worst mistakes (PNG).
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/images/picture.h"
#include "src/tasks/classification_metric.h"
#include "src/tasks/predictions.h"
#include "src/tasks/regression.h"

namespace carillon {

/// A record as a page or a sheet shows it.
struct ShownPrediction {
  std::string truth, predicted;       ///< true and predicted target as text: "cat"; "cat, dog"; "12.5"
  std::string rating;                 ///< rating of the prediction: its probability, loss or error
  std::optional<bool> is_right = {};  ///< nullopt: predictions of this task are neither right nor wrong
  Picture picture = {};               ///< RGB, at most sheet_tile_side pixels per side
  std::string origin = {};            ///< the file and the number of the record: "test-0: record 17, cat.jpg"
};

// Predictions file: a table (CSV, RFC 4180) with the targets and predictions of each record. Columns:
// docs/developer-guide/file-formats.md.

/// Where a record comes from.
struct RecordOrigin {
  std::string file;          ///< path of the record file
  std::size_t number = 0;    ///< number of the record in the file, from 0
  std::string picture = {};  ///< name of the picture from which the record was made; empty: unknown
};

/// Checks that the file can be written, without changing anything. Errors: usage (the name does not end in .csv), io.
void check_predictions_place(const std::filesystem::path& path);

/// The columns of the file after the columns with the origin of the record.
struct PredictionTable {
  std::vector<std::string> columns;
  std::size_t record_count = 0;
  std::function<std::vector<std::string>(std::size_t record)> cells;  ///< the cells of a record, one for each column
};

// These functions make the table of each task. `names`: names of the classes, labels or numbers; empty: the table shows
// their indices. The arguments must outlive the table.
/// Columns: true class and predicted class, and the most probable classes with their probabilities.
PredictionTable class_table(const Predictions& predictions, std::span<const std::string> names);
/// Columns: true labels and predicted labels, separated by `;`, and the probability of each label.
PredictionTable label_table(const StoredSamples& samples, std::span<const std::string> names);
/// Columns: true value and predicted value of each number.
PredictionTable number_table(const RegressionMetric& metric, std::span<const std::string> names);

/// Writes the whole file or, after an error, nothing. Errors: io.
void write_predictions(const std::filesystem::path& path, const PredictionTable& table,
                       const std::function<RecordOrigin(std::size_t)>& origin_of);

// Mistake sheet: a contact sheet of the pictures with the worst predictions.

/// The largest number of pictures of a sheet.
inline constexpr std::size_t max_sheet_mistakes = 64;

/// Makes a PNG file. Each picture has three lines below it: the target, the prediction, and the rating of the
/// prediction. If there are no mistakes, the sheet has a single tile, which says so.
std::string mistake_sheet(const std::vector<ShownPrediction>& mistakes);

/// Checks that the sheet can be written, without changing anything. Errors: usage (the name does not end in .png), io.
void check_sheet_place(const std::filesystem::path& path);
/// Writes the whole file or, after an error, nothing. Errors: io.
void write_mistake_sheet(const std::filesystem::path& path, const std::vector<ShownPrediction>& mistakes);

}  // namespace carillon
