// Page of a classification: confusion matrix with the most confused pairs, a table by class, and calibration, in
// addition to what all pages have.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "src/report/html/page.h"
#include "src/tasks/classification_metric.h"

namespace carillon {

struct ClassResults {
  const std::vector<Prediction>& predictions;  ///< by record
  const std::vector<ClassCounts>& classes;     ///< of the same records
  const Calibration& calibration;
  std::span<const std::string> names = {};  ///< of the classes; empty: the page shows their numbers
};

/// A matrix of more classes shows those of the most confused pairs.
inline constexpr std::size_t max_matrix_classes = 25;

std::string class_page(const PageFacts& facts, const ClassResults& results);

}  // namespace carillon
