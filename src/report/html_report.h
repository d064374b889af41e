// HTML report: the evaluation of a classifier as one page that needs no other files and no network.
//
// Scores, learning curves, confusion matrix with the most confused pairs, a table by class, calibration, pictures of
// the most certain mistakes and of the least certain predictions, and the description of the run. Equal input gives
// equal bytes: the page has no date. It is HTML and well-formed XML.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "carillon/tasks/metric.h"
#include "src/report/learning_curves.h"
#include "src/report/mistake_sheet.h"
#include "src/tasks/class_scores_metric.h"
#include "src/tasks/prediction_metric.h"

namespace carillon {

struct HtmlReport {
  std::string checkpoint;  ///< path
  std::string model;
  std::string values;  ///< which values of the checkpoint: "moving averages"
  std::int64_t step = 0;
  std::string version;               ///< of the program
  std::vector<std::string> records;  ///< patterns of the evaluated files
  std::vector<Score> scores;
  const Predictions& predictions;
  std::vector<std::string> class_names;  ///< by class; empty: the page shows the numbers of the classes
  const Calibration& calibration;
  LearningCurves curves;
  std::vector<ShownPrediction> mistakes;                     ///< the most certain ones
  std::vector<ShownPrediction> uncertain;                    ///< the least certain predictions
  std::vector<std::pair<std::string, std::string>> options;  ///< of the training: name and value
};

/// The largest number of pictures in each list.
inline constexpr std::size_t max_report_pictures = 24;
/// A matrix of more classes shows those with the most mistakes.
inline constexpr std::size_t max_matrix_classes = 25;

std::string html_report(const HtmlReport& report);
/// Writes the whole page or nothing. Errors: io.
void write_html_report(const std::filesystem::path& path, const HtmlReport& report);

}  // namespace carillon
