// The options of optimiser and schedule: their texts, and who uses which.
#pragma once

#include "carillon/app/option_set.h"
#include "carillon/run/train_options.h"

namespace carillon {

void declare_optimizer(OptionSet& set, TrainOptions& options);
void declare_lookahead(OptionSet& set, TrainOptions& options);
void declare_schedule(OptionSet& set, TrainOptions& options);

/// Errors: usage (an option was given that this optimiser, lookahead or schedule does not use, or lacks another).
void check_optimizer(const OptionSet& set, const TrainOptions& options);

}  // namespace carillon
