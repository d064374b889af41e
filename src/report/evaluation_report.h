// EvaluationReport: the evaluation of a classifier by class, as a JSON or CSV file. Pages:
// src/report/html/class_page.h. Fields: docs/developer-guide/file-formats.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/report/evaluated_network.h"
#include "src/tasks/class_counts.h"

namespace carillon {

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

}  // namespace carillon
