// The state of a training as a checkpoint stores it.
#pragma once

#include <string>

#include "carillon/cli/options/train_options.h"
#include "src/checkpoint/checkpoint.h"
#include "src/train/loop/run_position.h"

namespace carillon {

/// The state without its arrays.
CheckpointState state_at(const RunPosition& position, const ModelOptions& model, std::string options_json);

/// Errors: failed (a value is not finite; names its array).
void check_finite(const CheckpointState& state);

}  // namespace carillon
