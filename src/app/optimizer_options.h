// The options of optimiser and schedule: their texts, and who uses which.
#pragma once

#include "carillon/train/train_options.h"
#include "src/app/option_set.h"

namespace carillon {

void declare_optimizer(OptionSet& set, TrainOptions& options);
void declare_lookahead(OptionSet& set, TrainOptions& options);
void declare_schedule(OptionSet& set, TrainOptions& options);

/// Errors: usage (an option was given that this optimiser, lookahead or schedule does not use, or lacks another).
void check_optimizer(const OptionSet& set, const TrainOptions& options);

/// Where no end is said, that of a schedule, and of a lookahead that grows, is --max-steps: a checkpoint then holds it,
/// and a resumed run is told of another.
void resolve_ends(TrainOptions& options);

}  // namespace carillon
