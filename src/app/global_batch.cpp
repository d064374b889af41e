#include "src/app/global_batch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>

#include "carillon/core/error.h"
#include "src/comm/allreduce/communicator.h"

namespace carillon {
namespace {

/// Of a tower.
std::int64_t micro_batches(const TrainOptions& options) { return options.batch_size / options.micro_batch; }

/// One rank has all of the tree; several have a block of 2^k leaves each.
bool has_whole_subtree(const TrainOptions& options, const Mpi& mpi) {
  return mpi.size() == 1 || std::has_single_bit(static_cast<std::uint64_t>(micro_batches(options)));
}

/// Each rank's samples depend on how many there are.
bool draws_by_rank(const TrainOptions& options, const Mpi& mpi) {
  return options.sharding == Sharding::file && mpi.size() > 1;
}

void share_out(TrainOptions& options, int tower_count) {
  const bool is_cut = options.micro_batch > 0;
  const std::int64_t parts = options.global_batch / (is_cut ? options.micro_batch : 1);
  if (parts % tower_count != 0) {
    fail(ExitCode::usage, "--global-batch {}: its {} {} cannot be shared out evenly over {} ranks",
         options.global_batch, parts, is_cut ? "micro-batches" : "samples", tower_count);
  }
  options.batch_size = options.global_batch / tower_count;
}

void check_mixing(const TrainOptions& options) {
  if ((options.mixup == 0.0 && options.cutmix == 0.0) || options.samples_at_once() > 1) return;
  fail(ExitCode::usage, "--{}: samples that go through the network one by one have no other to be mixed with",
       options.mixup > 0.0 ? "mixup" : "cutmix");
}

/// Parts of a step would be read before others are shuffled.
void check_window(const TrainOptions& options, int tower_count) {
  const bool own = options.sharding == Sharding::file;
  const std::int64_t samples = options.batch_size * (own ? 1 : tower_count);
  if (options.shuffle_window == 0 || options.shuffle_window >= samples) return;
  fail(ExitCode::usage, "--shuffle-window {}: a step takes {} samples{}", options.shuffle_window, samples,
       own ? " of a rank" : "");
}

}  // namespace

void resolve_batch(TrainOptions& options, const ProgramSpec& program_spec, int tower_count) {
  const bool is_global = options.global_batch > 0;
  if (options.decay_steps == 0 && program_spec.decay_steps == nullptr) {
    options.decay_steps = decay_steps_without_rule;
  } else if (options.decay_steps == 0) {
    options.decay_steps = is_global ? program_spec.decay_steps(options.global_batch, 1)
                                    : program_spec.decay_steps(options.batch_size, tower_count);
  }
  if (is_global) share_out(options, tower_count);
  check_mixing(options);
  check_window(options, tower_count);
}

void check_takes_batches(const TrainOptions& options, const Device& device) {
  if (device.kind() == DeviceKind::cpu) return;
  if (options.sync_batch_norm) {
    fail(ExitCode::usage, "--sync-batch-norm is of CPUs, and this tower is on {}", device.name());
  }
  if (options.wire != Wire::fp32) {
    fail(ExitCode::usage, "--wire bf16 is of CPUs, and this tower is on {}: its gradients go as float32",
         device.name());
  }
  if (options.micro_batch == 0) return;
  fail(ExitCode::usage,
       "--micro-batch is of CPUs, and this tower is on {}: without it, a tower takes its part of "
       "--global-batch whole",
       device.name());
}

BatchInMemory batch_in_memory(const TrainOptions& options, const Device& device) {
  if (options.micro_batch > 0) {
    return {.option = fmt::format("--micro-batch {}", options.micro_batch),
            .at_once = std::min(micro_batches(options), static_cast<std::int64_t>(device.workers().size()))};
  }
  if (options.global_batch > 0) return {.option = fmt::format("--global-batch {}", options.global_batch)};
  return {.option = fmt::format("--batch-size {}", options.batch_size)};
}

bool has_bits_of_any_rank_count(const TrainOptions& options, const Mpi& mpi) {
  return options.micro_batch > 0 && !draws_by_rank(options, mpi) && has_whole_subtree(options, mpi) &&
         sums_as_one_tree(mpi.hosts());
}

void warn_of_micro_batches(const TrainOptions& options, const Mpi& mpi, int thread_count) {
  if (options.micro_batch == 0 || mpi.rank() != 0) return;
  const auto warn = [](const std::string& text) { print_text(STDERR_FILENO, fmt::format("warning: {}\n", text)); };
  const std::int64_t own = micro_batches(options);
  if (draws_by_rank(options, mpi)) {
    warn("--micro-batch: with --sharding file the samples, and so the bits, are those of this number of ranks");
  } else if (!has_whole_subtree(options, mpi)) {
    warn(
        fmt::format("--micro-batch {}: {} for each of {} ranks are no power of two: equal bits only at this number of "
                    "ranks, others up to rounding",
                    options.micro_batch, own, mpi.size()));
  } else if (!sums_as_one_tree(mpi.hosts())) {
    warn(
        "--micro-batch: the hosts' ranks are not consecutive, or not equal powers of two: equal bits only where they "
        "are placed alike, others up to rounding");
  }
  if (own < thread_count) {
    warn(fmt::format("--micro-batch {}: {} a rank leave {} of its {} threads without work", options.micro_batch, own,
                     thread_count - own, thread_count));
  }
}

}  // namespace carillon
