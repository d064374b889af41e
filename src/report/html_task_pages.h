// Pages of the evaluations of each task: what they have in addition to the common parts (html_page.h).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "src/report/html_page.h"
#include "src/tasks/classification_metric.h"
#include "src/tasks/multilabel.h"
#include "src/tasks/regression.h"

namespace carillon {

/// For the page of a classification.
struct ClassResults {
  const std::vector<Prediction>& predictions;  ///< by record
  const std::vector<ClassCounts>& classes;     ///< of the same records
  const Calibration& calibration;
  std::span<const std::string> names = {};  ///< of the classes; empty: the page shows their numbers
};

/// A matrix of more classes shows those of the most confused pairs.
inline constexpr std::size_t max_matrix_classes = 25;

/// Adds a confusion matrix with the most confused pairs, a table by class, and calibration.
std::string class_page(const PageFacts& facts, const ClassResults& results);

/// Adds a table by label. `names`: of the labels; empty: the page shows their numbers.
std::string label_page(const PageFacts& facts, const MultilabelMetric& metric, std::span<const std::string> names);

/// The largest number of charts of a regression.
inline constexpr std::size_t max_scatter_charts = 24;

/// Adds charts of predicted by true numbers, and a table by number. `names`: of the numbers; empty: the page shows "0",
/// "1", ...
std::string number_page(const PageFacts& facts, const RegressionMetric& metric, std::span<const std::string> names);

}  // namespace carillon
