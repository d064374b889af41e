// LoggingOptions: how often a training writes lines and TensorBoard summaries.
#pragma once

#include <cstdint>
#include <string>

#include "carillon/report/summary_style.h"

namespace carillon {

struct LoggingOptions {
  std::int64_t log_every = 10;      ///< steps between lines on the console and in metrics.jsonl; 0: none
  std::int64_t summary_every = 10;  ///< steps between TensorBoard summaries; 0: none
  bool summarize_start = true;      ///< if there are summaries: one of step 0, too; not an option
  SummaryStyle summary_style = SummaryStyle::variables;  ///< not an option
  /// What the notice about trainings of more than an hour recommends; empty: no notice. Not an option.
  std::string faster_choice;
};

}  // namespace carillon
