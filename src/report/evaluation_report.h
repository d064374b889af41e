// EvaluationReport: an evaluation by classes, as a file for people and programs: JSON or CSV. Fields: docs/formats.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "src/report/confusion_matrix.h"

namespace carillon {

struct EvaluationReport {
  std::string checkpoint;  ///< its path
  std::string model;
  std::string values;  ///< of the checkpoint: "moving averages"
  std::int64_t step = 0;
  ConfusionMatrix counts;
};

enum class ReportForm { json, csv };

/// What the name's extension says. Errors: usage (it says neither).
ReportForm report_form(const std::filesystem::path& path);

/// One JSON object; a line for each of its names, of lists one for each element.
std::string json_text(const EvaluationReport& report);
/// RFC 4180; a line for each class, and one for all.
std::string csv_text(const ConfusionMatrix& counts);

/// Finds out whether a report can be put under that name, and changes nothing. Errors: usage (report_form's), io.
void check_report_place(const std::filesystem::path& path);

/// Whole or not at all. Errors: as check_report_place.
void write_report(const std::filesystem::path& path, const EvaluationReport& report);

}  // namespace carillon
