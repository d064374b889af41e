// --global-batch and --micro-batch: how the ranks share the samples of a step.
#pragma once

#include "carillon/app/program_spec.h"
#include "carillon/device/device.h"
#include "src/comm/mpi/mpi.h"
#include "src/train/loop/training_setup.h"

namespace carillon {

/// Sets data.batch_size to the rank's part of a global batch, and schedule.decay_steps if it is 0. With a global batch,
/// decay_steps does not depend on the number of ranks. Errors: usage (the ranks cannot share the batch evenly; mixup or
/// cutmix of single samples; a shuffle window smaller than a step).
void resolve_batch(DataOptions& data, ScheduleOptions& schedule, const ProgramSpec& program_spec, int rank_count);

/// Errors: usage (--audit on a GPU).
void check_cpu_only_options(const TrainOptions& options, const Device& device);

/// The samples of a rank that are in memory at once, and the option that sets their number.
BatchInMemory batch_in_memory(const DataOptions& data, const Device& device);

/// Whether other numbers of ranks give the same bits: each rank's micro-batches are a whole subtree of the sum.
bool has_bits_of_any_rank_count(const DataOptions& data, const Mpi& mpi);

/// Warns, on rank 0, of micro-batches that depend on the number of ranks or leave threads idle. `thread_count`: threads
/// that compute micro-batches; 1 on a GPU.
void warn_of_micro_batches(const DataOptions& data, const Mpi& mpi, int thread_count);

}  // namespace carillon
