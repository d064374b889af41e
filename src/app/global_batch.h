// --global-batch and --micro-batch: a step's samples, as all ranks together take them.
#pragma once

#include "carillon/app/program_spec.h"
#include "carillon/device/device.h"
#include "carillon/train/train_options.h"
#include "src/comm/mpi/mpi.h"
#include "src/train/input/batch_memory.h"

namespace carillon {

/// Sets each tower's part of a global batch, and the steps in which the learning rate decays, which are then the same
/// at any number of towers. Errors: usage (the towers cannot share it out evenly; single samples are to be mixed).
void resolve_batch(TrainOptions& options, const ProgramSpec& program_spec, int tower_count);

/// Errors: usage (micro-batches, a common batch norm, or a wire of bf16, and a GPU).
void check_takes_batches(const TrainOptions& options, const Device& device);

/// What a tower has in memory at once of a step's samples, and by which option.
BatchInMemory batch_in_memory(const TrainOptions& options, const Device& device);

/// Whether other numbers of ranks give the same bits as these: their micro-batches are whole subtrees of the sum.
bool has_bits_of_any_rank_count(const TrainOptions& options, const Mpi& mpi);

/// Prints a warning, on rank 0, where they do not, or where threads have nothing to do.
void warn_of_micro_batches(const TrainOptions& options, const Mpi& mpi, int thread_count);

}  // namespace carillon
