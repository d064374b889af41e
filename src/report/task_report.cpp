#include "src/report/task_report.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "carillon/core/file.h"
#include "src/core/csv.h"
#include "src/core/printable.h"
#include "src/report/evaluation_report.h"

namespace carillon {
namespace {

using Json = nlohmann::ordered_json;

/// Counts without a decimal point; null for NaN.
Json json_of(double value) {
  constexpr double most = 1e15;  // exact as an integer
  if (!std::isfinite(value)) return nullptr;
  if (value == std::floor(value) && std::abs(value) < most) return static_cast<std::int64_t>(value);
  return value;
}

/// On one line. U+FFFD replaces bytes that are not UTF-8.
std::string line_of(const Json& json) {
  return printable_json(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

Json json_of(const TaskReport& report, std::size_t i) {
  Json row = {{report.row_name, i}, {"name", row_name(report, i)}};
  for (std::size_t column = 0; column < report.table.columns.size(); ++column) {
    row[report.table.columns[column]] = json_of(report.table.rows[i][column]);
  }
  return row;
}

}  // namespace

std::string row_name(const TaskReport& report, std::size_t i) {
  return i < report.names.size() ? report.names[i] : std::to_string(i);
}

std::string json_text(const TaskReport& report) {
  Json json = {{"checkpoint", report.checkpoint},
               {"model", report.model},
               {"global_step", report.step},
               {"values", report.values},
               {"records", report.records}};
  for (const Score& score : report.scores) json[score.name] = json_of(score.value);
  std::string text;
  for (const auto& [name, value] : json.items()) {
    text += fmt::format("{}\n  {}: {}", text.empty() ? "{" : ",", line_of(name), line_of(value));
  }
  text += fmt::format(",\n  {}: [", line_of(report.row_name + "s"));
  for (std::size_t i = 0; i < report.table.rows.size(); ++i) {
    text += fmt::format("{}\n    {}", i == 0 ? "" : ",", line_of(json_of(report, i)));
  }
  return text + "\n  ]\n}\n";
}

std::string csv_text(const TaskReport& report) {
  std::string text = report.row_name;
  for (const std::string& column : report.table.columns) text.append(",").append(column);
  text += csv_line_end;
  for (std::size_t i = 0; i < report.table.rows.size(); ++i) {
    text += csv_field(row_name(report, i));
    for (const double value : report.table.rows[i]) text += std::isfinite(value) ? fmt::format(",{}", value) : ",";
    text += csv_line_end;
  }
  return text;
}

void write_report(const std::filesystem::path& path, const TaskReport& report) {
  const std::string text = report_form(path) == ReportForm::json ? json_text(report) : csv_text(report);
  write_file_atomically(path, std::as_bytes(std::span(text)), max_report_bytes);
}

}  // namespace carillon
