// These functions run before a training starts. They resolve and check the options that depend on the network, the
// ranks and the device; these options determine the batches and the images of the evaluations. If a training will be
// long, they also find a faster choice to recommend.
#pragma once

#include <string>

#include "carillon/cli/options/train_options.h"
#include "carillon/cli/program_spec.h"
#include "carillon/device/device.h"
#include "carillon/models/network.h"
#include "src/comm/mpi/mpi.h"
#include "src/train/loop/training_setup.h"

namespace carillon {

/// Sets data.batch_size to the rank's part of a global batch. Sets schedule.decay_steps if it is 0. With a global
/// batch, decay_steps does not depend on the number of ranks. Errors: usage (the ranks cannot divide the batch evenly;
/// mixup or cutmix is used with batches of one sample; a shuffle window has fewer samples than a step).
void resolve_batch(DataOptions& data, ScheduleOptions& schedule, const ProgramSpec& program_spec, int rank_count);

/// Checks that options for CPUs are not used on a GPU. Errors: usage (--audit is set on a GPU).
void check_cpu_only_options(const TrainOptions& options, const Device& device);

/// Returns how many batches of a rank are in memory at a time, and the option that sets the size of a batch.
BatchInMemory batch_in_memory(const DataOptions& data, const Device& device);

/// True if a training with any other number of ranks computes the same bits. This has four requirements: the training
/// uses micro-batches, the samples do not depend on the number of ranks, each rank sums a whole subtree, and the hosts
/// sum as one tree (sums_as_one_tree).
bool has_bits_of_any_rank_count(const DataOptions& data, const Mpi& mpi);

/// Warns on rank 0 if the results of micro-batches depend on the number of ranks, or if micro-batches leave threads
/// idle. `thread_count`: threads that compute micro-batches; 1 on a GPU.
void warn_of_micro_batches(const DataOptions& data, const Mpi& mpi, int thread_count);

// The following functions check the images of a training's evaluations. The shape of these images may differ from the
// shape of the training images.

/// Checks that two networks have the same variables and buffers. Errors: usage (a name or a shape depends on the image
/// size).
void check_same_variables(const Network& trained, const Network& evaluated);

/// Checks that the network can evaluate images of the shape that the decoder of evaluations has. `size`: the option
/// that sets the shape, with its value, for messages; empty: no option sets it. Errors: usage.
void check_evaluation_images(const TrainOptions& options, const std::string& size);

/// Checks the size of an evaluation's batch. On CPUs, the batch must fit into the host's memory. On a GPU, the GPU must
/// be able to index the tensors of one image. `local_ranks`: number of ranks on this host. Errors: usage.
void check_evaluation_fits(const TrainOptions& options, const std::string& size, const Device& device, int local_ranks);

/// Returns the value of LoggingOptions::faster_choice for these options. The text recommends fewer steps. If
/// ProgramSpec::fast_network at fast_image_size needs much less work per image than this network, the text also
/// recommends the fast network. The text is empty if the program has no fast network or the data are synthetic.
/// `options`: options with resolved network, task and records. `evaluates_other_size`: whether --eval-image-size is
/// set.
std::string faster_choice(const ProgramSpec& program_spec, const TrainOptions& options, bool evaluates_other_size);

}  // namespace carillon
