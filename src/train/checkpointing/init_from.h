// The initial state of a run that does not resume: the variables of a checkpoint or of a file with PyTorch's weights
// (--init-from), or initial values.
#pragma once

#include "carillon/cli/options/train_options.h"
#include "carillon/data/dataset.h"
#include "src/cli/options/run_description.h"
#include "src/step/tower.h"

namespace carillon {

/// Initializes the tower of rank 0 according to --init-from, --init-exclude and --seed. Prints a line about
/// --init-from, and a warning if that checkpoint was trained with another --preprocessing than the run of
/// `description`. `dataset`: training set for initial values that depend on data; null: the network has none. Errors:
/// usage (--init-exclude matches no variable; lists all variables), no_input (the file of --init-from is missing), data
/// (damaged, or of another model), io.
void initialize(const CheckpointOptions& options, const ModelOptions& model, const Dataset* dataset,
                const RunDescription& description, Tower& tower);

/// Prints that a run starts from the arrays of `initial`, except the arrays named in `excluded`. Warns as `initialize`.
void print_initialized(const LoadedCheckpoint& initial, const std::vector<std::string>& excluded,
                       const RunDescription& description);

/// Errors: data (the checkpoint belongs to another model). `other_way`: advice at the end of the message.
void check_model(const LoadedCheckpoint& loaded, const ModelOptions& model, std::string_view other_way);

}  // namespace carillon
