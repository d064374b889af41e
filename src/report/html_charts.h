// HTML charts: inline SVG figures. Their colours are those of the page (html_page.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/report/learning_curves.h"
#include "src/tasks/class_scores_metric.h"

namespace carillon {

struct ChartLine {
  std::string name;
  std::vector<CurvePoint> points;
  bool is_second = false;  ///< the second colour, and a mark at each point
};

struct LineChart {
  std::string title;
  std::vector<ChartLine> lines;            ///< lines without points are left out
  std::optional<double> marked_step = {};  ///< a vertical line at this step
  bool starts_at_zero = false;
};

/// A figure; empty if no line has points.
std::string line_chart(const LineChart& chart);

/// Accuracy by confidence, and the number of samples by confidence.
std::string calibration_chart(const Calibration& calibration);

}  // namespace carillon
