// The evaluation page of each task: the parts in addition to the common parts (html_page.h).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "src/report/html_page.h"
#include "src/tasks/classification_metric.h"
#include "src/tasks/multilabel.h"
#include "src/tasks/regression.h"

namespace carillon {

/// The results that the page of a classification shows.
struct ClassResults {
  const std::vector<Prediction>& predictions;  ///< by record
  const std::vector<ClassCounts>& classes;     ///< counts of the same records
  const Calibration& calibration;
  std::span<const std::string> names = {};  ///< class names; empty: the page shows the classes' numbers
};

/// The largest number of classes in a confusion matrix. With more classes, the matrix shows the classes of the most
/// confused pairs.
inline constexpr std::size_t max_matrix_classes = 25;

/// The page of a classification: adds a confusion matrix with the most confused pairs, a table of the classes, and a
/// calibration chart.
std::string class_page(const PageFacts& facts, const ClassResults& results);

/// The page of a multilabel task: adds a table of the labels. `names`: names of the labels; empty: the page shows the
/// labels' numbers.
std::string label_page(const PageFacts& facts, const MultilabelMetric& metric, std::span<const std::string> names);

/// The largest number of charts on the page of a regression.
inline constexpr std::size_t max_scatter_charts = 24;

/// The page of a regression: adds scatter charts of predicted over true numbers, and a table of the numbers. `names`:
/// names of the numbers; empty: the page shows "0", "1", ...
std::string number_page(const PageFacts& facts, const RegressionMetric& metric, std::span<const std::string> names);

}  // namespace carillon
