#include "src/report/evaluation_report.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string_view>

#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "src/core/text.h"
#include "src/core/text_file.h"

namespace carillon {

void check_output_place(std::string_view option, const std::filesystem::path& path, std::string_view ending) {
  if (!ending.empty() && path.extension() != ending) {
    fail(ExitCode::usage, "--{} {}: the name of the file must end in {}", option, path.string(), ending);
  }
  try {
    check_output(path);
  } catch (const Error& error) {
    fail(error.code(), "--{} {}", option, error.what());
  }
}

namespace {

using Json = nlohmann::ordered_json;

std::string line_of(const Json& json) {
  return printable_json(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

/// Returns the members at the beginning of each report.
Json json_of(const EvaluatedNetwork& network) {
  return {{"checkpoint", network.checkpoint},
          {"model", network.model},
          {"global_step", network.step},
          {"values", network.values}};
}

/// Returns `object` as text that people and line-based tools can read: each member, and each element of a list, is on
/// its own line. U+FFFD replaces bytes that are not UTF-8.
std::string json_lines(const Json& object) {
  std::string text;
  for (const auto& [name, value] : object.items()) {
    text += fmt::format("{}\n  {}: ", text.empty() ? "{" : ",", line_of(name));
    if (!value.is_array()) {
      text += line_of(value);
      continue;
    }
    text += "[";
    std::string_view before = "";
    for (const Json& element : value) {
      text += fmt::format("{}\n    {}", before, line_of(element));
      before = ",";
    }
    text += "\n  ]";
  }
  return text + "\n}\n";
}

Json json_of(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json json_of(const EvaluationReport& report, std::size_t label) {
  const ClassCounts one = report.counts.of_class(label);
  Json json = {{"class", label}};
  if (label < report.class_names.size()) json["name"] = report.class_names[label];
  json["support"] = one.support;
  json["predicted"] = one.predicted;
  json["correct"] = one.correct;
  json["precision"] = json_of(one.precision());
  json["recall"] = json_of(one.recall());
  return json;
}

std::string cell(const std::optional<double>& value) { return value ? fmt::format("{}", *value) : ""; }

/// Returns a line of the CSV report. `name`: name of a class, or "total". `last`: the last cell, with the comma before
/// it.
std::string csv_line(const std::string& name, const ClassCounts& one, std::span<const std::int64_t> predicted,
                     const std::string& last) {
  std::string line = fmt::format("{},{},{},{},{},{}", csv_field(name), one.support, one.predicted, one.correct,
                                 cell(one.precision()), cell(one.recall()));
  for (const std::int64_t count : predicted) line += fmt::format(",{}", count);
  return (line + last).append(csv_line_end);
}

}  // namespace

ReportForm report_form(const std::filesystem::path& path) {
  if (path.extension() == ".json") return ReportForm::json;
  if (path.extension() == ".csv") return ReportForm::csv;
  if (path.extension() == ".html") return ReportForm::html;
  fail(ExitCode::usage, "--report {}: the name of a report must end in .html, .json or .csv", path.string());
}

std::string json_text(const EvaluationReport& report) {
  const Accuracy all = report.counts.accuracy();
  Json json = json_of(report.network);
  json["correct"] = all.correct;
  json["total"] = all.total;
  json["precision"] = all.value();
  if (report.loss) json["loss"] = *report.loss;
  for (const Score& score : report.other_scores) json[score.name] = score.value;
  json["classes"] = Json::array();
  json["confusion"] = Json::array();
  for (std::size_t label = 0; label < report.counts.class_count(); ++label) {
    json["classes"].push_back(json_of(report, label));
    const std::span<const std::int64_t> row = report.counts.row(label);
    json["confusion"].push_back(std::vector<std::int64_t>(row.begin(), row.end()));
  }
  return json_lines(json);
}

std::string csv_text(const ConfusionMatrix& counts, std::span<const std::string> class_names,
                     std::optional<double> loss) {
  std::string text = "class,support,predicted,correct,precision,recall";
  for (std::size_t label = 0; label < counts.class_count(); ++label) {
    text += fmt::format(",{}", csv_field(fmt::format("predicted_{}", name_or_number(class_names, label))));
  }
  text += loss ? ",loss\r\n" : "\r\n";
  std::vector<std::int64_t> predicted;
  for (std::size_t label = 0; label < counts.class_count(); ++label) {
    const ClassCounts one = counts.of_class(label);
    text += csv_line(name_or_number(class_names, label), one, counts.row(label), loss ? "," : "");
    predicted.push_back(one.predicted);
  }
  const Accuracy all = counts.accuracy();
  return text + csv_line("total", {.support = all.total, .predicted = all.total, .correct = all.correct}, predicted,
                         loss ? fmt::format(",{}", *loss) : "");
}

void check_report_place(const std::filesystem::path& path) {
  report_form(path);
  check_output_place("report", path);
}

void write_report(const std::filesystem::path& path, const EvaluationReport& report) {
  const std::string text = report_form(path) == ReportForm::json
                               ? json_text(report)
                               : csv_text(report.counts, report.class_names, report.loss);
  write_file_atomically(path, std::as_bytes(std::span(text)), max_report_bytes);
}

namespace {

/// Returns `value` as JSON. Whole numbers, such as counts, have no decimal point. NaN becomes null.
Json json_of(double value) {
  constexpr double most = 1e15;  // a double represents smaller whole numbers exactly
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
