#include "src/report/task_report.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "carillon/core/file.h"
#include "src/core/csv.h"
#include "src/report/evaluation_report.h"
#include "src/report/json_lines.h"
#include "src/report/texts.h"

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

Json json_of(const TaskReport& report, std::size_t i) {
  Json row = {{report.row_name, i}, {"name", name_or_number(report.names, i)}};
  for (std::size_t column = 0; column < report.table.columns.size(); ++column) {
    row[report.table.columns[column]] = json_of(report.table.rows[i][column]);
  }
  return row;
}

}  // namespace

std::string json_text(const TaskReport& report) {
  Json json = json_of(report.network);
  json["records"] = report.records;
  for (const Score& score : report.scores) json[score.name] = json_of(score.value);
  Json& rows = json[report.row_name + "s"] = Json::array();
  for (std::size_t i = 0; i < report.table.rows.size(); ++i) rows.push_back(json_of(report, i));
  return json_lines(json);
}

std::string csv_text(const TaskReport& report) {
  std::string text = report.row_name;
  for (const std::string& column : report.table.columns) text.append(",").append(column);
  text += csv_line_end;
  for (std::size_t i = 0; i < report.table.rows.size(); ++i) {
    text += csv_field(name_or_number(report.names, i));
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
