// Resume: the start of a run: the newest checkpoint of its train directory, another checkpoint's variables, or initial
// values.
#pragma once

#include "carillon/cli/options/train_options.h"
#include "src/comm/mpi/mpi.h"
#include "src/step/tower.h"
#include "src/train/loop/recorder.h"
#include "src/train/loop/run_position.h"

namespace carillon {

/// Rank 0 loads or initializes its tower as --resume, --fresh, --init-from and --seed say, and sends its state to all
/// ranks. `dataset`: training set for initial values that depend on data; null: the network has none. Collective.
/// Errors: usage (--resume never in a directory with a checkpoint), no_input (--resume require without a checkpoint, or
/// the file of --init-from is missing), data (damaged, or of another model), io.
RunPosition start_or_resume(const CheckpointOptions& options, const ModelOptions& model, const Dataset* dataset,
                            Tower& tower, Recorder& recorder, const Mpi& mpi);

}  // namespace carillon
