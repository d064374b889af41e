// TaskReport: the evaluation of any task as a JSON or CSV file: its scores, and the results of each output.
// Fields: docs/developer-guide/file-formats.md. Classifications have their own report (evaluation_report.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "carillon/tasks/metric.h"
#include "src/report/evaluated_network.h"

namespace carillon {

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
