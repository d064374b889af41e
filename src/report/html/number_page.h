// Page of a regression: predicted by true numbers, and a table by number, in addition to what all pages have.
#pragma once

#include <span>
#include <string>

#include "src/report/html/page.h"
#include "src/tasks/regression.h"

namespace carillon {

/// The largest number of charts.
inline constexpr std::size_t max_scatter_charts = 24;

/// `names`: of the numbers; empty: the page shows "0", "1", ...
std::string number_page(const PageFacts& facts, const RegressionMetric& metric, std::span<const std::string> names);

}  // namespace carillon
