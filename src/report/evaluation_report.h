// Reports of an evaluation as JSON or CSV files: EvaluationReport for classifiers, TaskReport for all other tasks.
// Fields: docs/developer-guide/file-formats.md. Pages: src/report/html_page.h.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/tasks/metric.h"
#include "src/tasks/classification_metric.h"

namespace carillon {

/// Returns the name of output `i` (a class, label or number). If `names` has no such entry, returns `i` as text.
inline std::string name_or_number(std::span<const std::string> names, std::size_t i) {
  return i < names.size() ? names[i] : std::to_string(i);
}

/// Returns a score as text with 4 decimals. If the number is small or large, the text has 5 significant digits instead.
/// NaN becomes a dash.
inline std::string score_text(double value) {
  constexpr double small = 1e-3, large = 1e4;
  const double size = std::abs(value);
  if (std::isnan(value)) return "–";
  return size != 0.0 && (size < small || size >= large) ? fmt::format("{:.5g}", value) : fmt::format("{:.4f}", value);
}

/// Returns a percentage: "97.10 %".
inline std::string percent_text(double share) { return fmt::format("{:.2f} %", 100.0 * share); }

/// The network that an evaluation used.
struct EvaluatedNetwork {
  std::string checkpoint;  ///< path of the checkpoint file
  std::string model;
  std::string values;  ///< name of the evaluated values of the checkpoint: "moving averages"
  std::int64_t step = 0;
};

/// Checks that the file that an option names can be written. Changes nothing. Call it before a long computation.
/// `option`: name of the option without dashes. `ending`: required extension of the file name, with its dot; empty:
/// any. Errors: usage (the file name has another ending), io. The message names the option.
void check_output_place(std::string_view option, const std::filesystem::path& path, std::string_view ending = {});

/// The results of a classifier's evaluation for each class.
struct EvaluationReport {
  EvaluatedNetwork network;
  ConfusionMatrix counts;
  std::vector<std::string> class_names;       ///< by class; empty: reports show the numbers of the classes
  std::optional<double> loss = std::nullopt;  ///< mean cross-entropy; nullopt: the report has no loss
  std::vector<Score> other_scores = {};       ///< scores other than accuracy and loss; only JSON reports contain them
};

enum class ReportForm { json, csv, html };

/// Returns the report format for the extension of the file name. Errors: usage (the extension is unknown).
ReportForm report_form(const std::filesystem::path& path);

/// Returns one JSON object with one line per name. In a list, each element has one line.
std::string json_text(const EvaluationReport& report);
/// Returns a CSV file (RFC 4180) with one line per class. The last line is for all classes together. `class_names`: see
/// EvaluationReport. If `loss` is given, it is in the last column of the last line.
std::string csv_text(const ConfusionMatrix& counts, std::span<const std::string> class_names = {},
                     std::optional<double> loss = std::nullopt);

/// Checks that a report can be written to `path`; changes nothing. Errors: see report_form; io.
void check_report_place(const std::filesystem::path& path);

inline constexpr std::size_t max_report_bytes = std::size_t{1} << 30;

/// Writes the whole report or, after an error, nothing. The format must not be html. Errors: see check_report_place;
/// usage (the report has more than max_report_bytes bytes).
void write_report(const std::filesystem::path& path, const EvaluationReport& report);

/// The evaluation of a task that is not a classification: its scores, and the results of each output.
struct TaskReport {
  EvaluatedNetwork network;
  std::string row_name;  ///< kind of a row of the table: "label" or "number"
  std::uint64_t records = 0;
  std::vector<Score> scores;
  ScoreTable table;
  std::vector<std::string> names;  ///< names of the rows; empty: reports show their numbers
};

/// Returns one JSON object with one line per name. The rows are in the list "<row_name>s".
std::string json_text(const TaskReport& report);
/// Returns a CSV file (RFC 4180) with one line per row. An empty cell means that there is no result.
std::string csv_text(const TaskReport& report);

/// Writes the whole report or, after an error, nothing. The extension selects JSON or CSV. Errors: io; usage (the
/// report has more than max_report_bytes bytes).
void write_report(const std::filesystem::path& path, const TaskReport& report);

}  // namespace carillon
