// Page of a multi-label classification: a table by label, in addition to what all pages have.
#pragma once

#include <span>
#include <string>

#include "src/report/html/page.h"
#include "src/tasks/multilabel.h"

namespace carillon {

/// `names`: of the labels; empty: the page shows their numbers.
std::string label_page(const PageFacts& facts, const MultilabelMetric& metric, std::span<const std::string> names);

}  // namespace carillon
