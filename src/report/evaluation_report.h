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

/// The name of output `i` (a class, label or number), or the text of `i` if `names` has no such entry.
inline std::string name_or_number(std::span<const std::string> names, std::size_t i) {
  return i < names.size() ? names[i] : std::to_string(i);
}

/// A score as text. The text has 4 decimals, or 5 significant digits if the number is small or large. NaN becomes a
/// dash.
inline std::string score_text(double value) {
  constexpr double small = 1e-3, large = 1e4;
  const double size = std::abs(value);
  if (std::isnan(value)) return "–";
  return size != 0.0 && (size < small || size >= large) ? fmt::format("{:.5g}", value) : fmt::format("{:.4f}", value);
}

/// "97.10 %"
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
/// any. Errors: usage (another ending), io. The message names the option.
void check_output_place(std::string_view option, const std::filesystem::path& path, std::string_view ending = {});

/// The evaluation of a classifier by class.
struct EvaluationReport {
  EvaluatedNetwork network;
  ConfusionMatrix counts;
  std::vector<std::string> class_names;       ///< by class; empty: reports show the numbers of the classes
  std::optional<double> loss = std::nullopt;  ///< mean cross-entropy; nullopt: the report has no loss
  std::vector<Score> other_scores = {};       ///< scores other than accuracy and loss; only JSON reports contain them
};

enum class ReportForm { json, csv, html };

/// The report format for the extension of the file name. Errors: usage (another extension).
ReportForm report_form(const std::filesystem::path& path);

/// One JSON object with one line per name; a list has one line per element.
std::string json_text(const EvaluationReport& report);
/// A CSV file (RFC 4180) with one line per class and a last line for all classes. `class_names`: as in
/// EvaluationReport. If there is a `loss`, it is in the last column of the last line.
std::string csv_text(const ConfusionMatrix& counts, std::span<const std::string> class_names = {},
                     std::optional<double> loss = std::nullopt);

/// Checks that a report can be written to `path`; changes nothing. Errors: usage (as report_form), io.
void check_report_place(const std::filesystem::path& path);

inline constexpr std::size_t max_report_bytes = std::size_t{1} << 30;

/// Writes the whole report or nothing. The format must not be html. Errors: as check_report_place; usage (more than
/// max_report_bytes).
void write_report(const std::filesystem::path& path, const EvaluationReport& report);

/// The evaluation of a task that is not classification: its scores, and the results of each output.
struct TaskReport {
  EvaluatedNetwork network;
  std::string row_name;  ///< kind of a row of the table: "label" or "number"
  std::uint64_t records = 0;
  std::vector<Score> scores;
  ScoreTable table;
  std::vector<std::string> names;  ///< names of the rows; empty: reports show their numbers
};

/// One JSON object with one line per name; the rows are the list "<row_name>s".
std::string json_text(const TaskReport& report);
/// A CSV file (RFC 4180): one line per row. An empty cell means that there is no result.
std::string csv_text(const TaskReport& report);

/// Writes the whole report or nothing: JSON or CSV by the extension. Errors: io; usage (more than max_report_bytes).
void write_report(const std::filesystem::path& path, const TaskReport& report);

}  // namespace carillon
