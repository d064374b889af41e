#include "src/app/global_batch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>

#include "carillon/core/error.h"
#include "src/comm/allreduce/communicator.h"
#include "src/report/console.h"

namespace carillon {
namespace {

/// Per rank.
std::int64_t micro_batches(const DataOptions& data) { return data.batch_size / data.micro_batch; }

/// A single rank sums the whole tree. Each of several ranks sums a block of 2^k leaves.
bool has_whole_subtree(const DataOptions& data, const Mpi& mpi) {
  return mpi.size() == 1 || std::has_single_bit(static_cast<std::uint64_t>(micro_batches(data)));
}

/// Whether the samples of a rank depend on the number of ranks.
bool draws_by_rank(const DataOptions& data, const Mpi& mpi) {
  return data.sharding == Sharding::file && mpi.size() > 1;
}

void divide(DataOptions& data, int rank_count) {
  const bool has_micro_batches = data.micro_batch > 0;
  const std::int64_t parts = data.global_batch / (has_micro_batches ? data.micro_batch : 1);
  if (parts % rank_count != 0) {
    fail(ExitCode::usage, "--global-batch {}: {} ranks cannot share its {} {} evenly", data.global_batch, rank_count,
         parts, has_micro_batches ? "micro-batches" : "samples");
  }
  data.batch_size = data.global_batch / rank_count;
}

void check_mixing(const DataOptions& data) {
  if ((data.mixup == 0.0 && data.cutmix == 0.0) || data.samples_at_once() > 1) return;
  fail(ExitCode::usage, "--{} requires a batch, or micro-batch, of at least 2 samples per rank",
       data.mixup > 0.0 ? "mixup" : "cutmix");
}

/// In a smaller window, a step would read records before others are shuffled.
void check_window(const DataOptions& data, int rank_count) {
  const bool own = data.sharding == Sharding::file;
  const std::int64_t samples = data.batch_size * (own ? 1 : rank_count);
  if (data.shuffle_window == 0 || data.shuffle_window >= samples) return;
  fail(ExitCode::usage, "--shuffle-window {} is smaller than the {} samples of a step{}", data.shuffle_window, samples,
       own ? " of a rank" : "");
}

}  // namespace

void resolve_batch(DataOptions& data, ScheduleOptions& schedule, const ProgramSpec& program_spec, int rank_count) {
  const bool is_global = data.global_batch > 0;
  if (schedule.decay_steps == 0 && program_spec.decay_steps == nullptr) {
    schedule.decay_steps = decay_steps_without_rule;
  } else if (schedule.decay_steps == 0) {
    schedule.decay_steps = is_global ? program_spec.decay_steps(data.global_batch, 1)
                                     : program_spec.decay_steps(data.batch_size, rank_count);
  }
  if (is_global) divide(data, rank_count);
  check_mixing(data);
  check_window(data, rank_count);
}

void check_cpu_only_options(const TrainOptions& options, const Device& device) {
  if (device.kind() == DeviceKind::cpu || options.faults.audit == 0) return;
  fail(ExitCode::usage, "--audit requires CPUs; the device of this rank is {}", device.name());
}

BatchInMemory batch_in_memory(const DataOptions& data, const Device& device) {
  if (data.micro_batch > 0) {
    return {.option = fmt::format("--micro-batch {}", data.micro_batch),
            .at_once =
                std::clamp<std::int64_t>(static_cast<std::int64_t>(device.workers().size()), 1, micro_batches(data))};
  }
  if (data.global_batch > 0) return {.option = fmt::format("--global-batch {}", data.global_batch)};
  return {.option = fmt::format("--batch-size {}", data.batch_size)};
}

bool has_bits_of_any_rank_count(const DataOptions& data, const Mpi& mpi) {
  return data.micro_batch > 0 && !draws_by_rank(data, mpi) && has_whole_subtree(data, mpi) &&
         sums_as_one_tree(mpi.hosts());
}

void warn_of_micro_batches(const DataOptions& data, const Mpi& mpi, int thread_count) {
  if (data.micro_batch == 0 || mpi.rank() != 0) return;
  const std::int64_t own = micro_batches(data);
  if (draws_by_rank(data, mpi)) {
    print_warning(
        "--micro-batch: with --sharding file, the samples and therefore the bits depend on the number of ranks");
  } else if (!has_whole_subtree(data, mpi)) {
    print_warning(
        fmt::format("--micro-batch {}: {} micro-batches for each of {} ranks are no power of two; other numbers of "
                    "ranks give equal results only up to rounding",
                    data.micro_batch, own, mpi.size()));
  } else if (!sums_as_one_tree(mpi.hosts())) {
    print_warning(
        "--micro-batch: the ranks of a host are not consecutive, or their numbers are not equal powers of two; other "
        "placements of the ranks give equal results only up to rounding");
  }
  if (own < thread_count) {
    print_warning(fmt::format("--micro-batch {}: {} micro-batches per rank leave {} of its {} threads idle",
                              data.micro_batch, own, thread_count - own, thread_count));
  }
}

}  // namespace carillon
