// The initial state of a run that does not resume: the variables of a checkpoint or of a file with PyTorch's weights
// (--init-from), or initial values.
#pragma once

#include "carillon/data/dataset.h"
#include "carillon/options/checkpoint_options.h"
#include "carillon/options/model_options.h"
#include "src/options/run_description.h"
#include "src/step/tower.h"

namespace carillon {

/// Initializes rank 0's tower as --init-from, --init-exclude and --seed say. Prints a line about --init-from, and a
/// warning if that checkpoint was trained with another --preprocessing than the run of `description`. `dataset`:
/// training set for initial values that depend on data; null: the network has none. Errors: usage (--init-exclude
/// matches no variable; lists all variables), no_input (the file of --init-from is missing), data (damaged, or of
/// another model), io.
void initialize(const CheckpointOptions& options, const ModelOptions& model, const Dataset* dataset,
                const RunDescription& description, Tower& tower);

/// Prints that a run starts from the arrays of `initial`, without those of the names `excluded`. Warns as `initialize`.
void print_initialized(const LoadedCheckpoint& initial, const std::vector<std::string>& excluded,
                       const RunDescription& description);

/// Errors: data (the checkpoint is of another model). `other_way`: what to do instead, for the message.
void check_model(const LoadedCheckpoint& loaded, const ModelOptions& model, std::string_view other_way);

}  // namespace carillon
