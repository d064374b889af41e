// Reports of an evaluation as JSON or CSV files: EvaluationReport for classifiers, TaskReport for all other tasks.
// Fields: docs/developer-guide/file-formats.md. Pages: src/report/html_task_pages.h.
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
#include "src/tasks/class_counts.h"

namespace carillon {

/// The name of output `i` (class, label or number); its index if `names` does not have it.
inline std::string name_or_number(std::span<const std::string> names, std::size_t i) {
  return i < names.size() ? names[i] : std::to_string(i);
}

/// With 4 decimals; small and large numbers with 5 digits. NaN: a dash.
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
  std::string checkpoint;  ///< path
  std::string model;
  std::string values;  ///< which values of the checkpoint: "moving averages"
  std::int64_t step = 0;
};

/// Before a long computation: checks that the file that an option names can be written. Changes nothing. `option`:
/// without the dashes. `ending`: that of the name, with its dot; empty: any. Errors: usage (another ending), io. Both
/// name the option.
void check_output_place(std::string_view option, const std::filesystem::path& path, std::string_view ending = {});

/// The evaluation of a classifier by class.
struct EvaluationReport {
  EvaluatedNetwork network;
  ConfusionMatrix counts;
  std::vector<std::string> class_names;       ///< by class; empty: reports show the numbers of the classes
  std::optional<double> loss = std::nullopt;  ///< mean cross-entropy; none: the report has no loss
  std::vector<Score> other_scores = {};       ///< other than accuracy and loss; only in JSON
};

enum class ReportForm { json, csv, html };

/// The form that the extension of the name says. Errors: usage (another extension).
ReportForm report_form(const std::filesystem::path& path);

/// One JSON object with one line per name; a list has one line per element.
std::string json_text(const EvaluationReport& report);
/// RFC 4180: one line per class, and one line for all classes. `class_names`: as in EvaluationReport. With a `loss`,
/// the last column has it in the last line.
std::string csv_text(const ConfusionMatrix& counts, std::span<const std::string> class_names = {},
                     std::optional<double> loss = std::nullopt);

/// Checks that a report can be written to `path`; changes nothing. Errors: usage (as report_form), io.
void check_report_place(const std::filesystem::path& path);

inline constexpr std::size_t max_report_bytes = std::size_t{1} << 30;

/// Writes the whole report or nothing; its form is not html. Errors: as check_report_place; usage (more than
/// max_report_bytes).
void write_report(const std::filesystem::path& path, const EvaluationReport& report);

/// The evaluation of any other task: its scores, and the results of each output.
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
/// RFC 4180: one line per row. Empty: no result.
std::string csv_text(const TaskReport& report);

/// Writes the whole report or nothing: JSON or CSV by the extension. Errors: io; usage (more than max_report_bytes).
void write_report(const std::filesystem::path& path, const TaskReport& report);

}  // namespace carillon
