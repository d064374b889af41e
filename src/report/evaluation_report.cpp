#include "src/report/evaluation_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <system_error>

#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "src/core/csv.h"
#include "src/report/json_lines.h"
#include "src/report/output_place.h"
#include "src/report/texts.h"

namespace carillon {
namespace {

using Json = nlohmann::ordered_json;

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

/// `name`: of a class, or "total". `last`: the last cell, with its comma.
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

}  // namespace carillon
