// Resume: where a run begins: at its train directory's newest checkpoint, at another's variables, or at random ones.
#pragma once

#include "carillon/options/checkpoint_options.h"
#include "carillon/options/model_options.h"
#include "src/comm/mpi/mpi.h"
#include "src/step/tower.h"
#include "src/train/loop/recorder.h"
#include "src/train/loop/run_position.h"

namespace carillon {

/// Gives every tower rank 0's variables and averages as --resume, --fresh, --init-from, --seed and the training set
/// `dataset` say; null: the network has no values of data. Collective. Errors: usage (--resume never in a directory
/// with a checkpoint), no_input (--resume require without, or no file --init-from), data (damaged, or another model's),
/// io.
RunPosition start_or_resume(const CheckpointOptions& options, const ModelOptions& model, const Dataset* dataset,
                            Tower& tower, Recorder& recorder, const Mpi& mpi);

}  // namespace carillon
