// HTML charts: inline SVG figures. They use the colours of the page (html_style.h). All text arguments are HTML: pass
// any other text through html_text() first.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/report/learning_curves.h"
#include "src/tasks/classification_metric.h"

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
  double last_step = 0.0;                  ///< the axis goes at least from step 0 to this one
  bool starts_at_zero = false;
};

/// A figure; empty if no line has points.
std::string line_chart(const LineChart& chart);

/// A predicted number of a record, and its true value.
struct PredictedNumber {
  double truth = 0.0, predicted = 0.0;
};

/// A scatter chart of predicted numbers over true numbers, with the line on which both are equal. `name`: name of the
/// number. Shows at most 1,500 points, evenly spaced in `numbers`.
std::string scatter_chart(const std::string& name, std::span<const PredictedNumber> numbers);

/// A chart of accuracy and number of samples as functions of confidence.
std::string calibration_chart(const Calibration& calibration);

}  // namespace carillon
