#include "src/cli/launch/resolve_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>

#include "carillon/core/error.h"
#include "src/comm/allreduce/communicator.h"
#include "src/report/console.h"

namespace carillon {
namespace {

/// Returns the number of micro-batches per rank.
std::int64_t micro_batches(const DataOptions& data) { return data.batch_size / data.micro_batch; }

/// True if each rank sums a whole subtree of the tree that sums the micro-batches. A single rank sums the whole tree.
/// If there are several ranks, each must sum a block of 2^k leaves.
bool has_whole_subtree(const DataOptions& data, const Mpi& mpi) {
  return mpi.size() == 1 || std::has_single_bit(static_cast<std::uint64_t>(micro_batches(data)));
}

/// True if the samples of a rank depend on the number of ranks.
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

/// Checks that a shuffle window contains at least as many samples as a step. In a smaller window, the samples of a step
/// would not be shuffled together.
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

namespace {

ImageShape evaluated_shape(const RecordForm& form) { return form.decoder({}, RecordUse::evaluation)->image_shape(); }

/// Returns the subject of an error message: the option `size` if it is set, otherwise the image size.
std::string subject(const std::string& size, const ImageShape& image) {
  return size.empty() ? fmt::format("evaluated images of {} x {} pixels", image.height, image.width) : size;
}

}  // namespace

void check_same_variables(const Network& trained, const Network& evaluated) {
  const Graph training = build_network(trained, {1, Arithmetic::fp32, Purpose::training}).graph;
  const Graph evaluation = build_network(evaluated, {1, Arithmetic::fp32, Purpose::evaluation}).graph;
  const auto equal = [](const auto& left, const auto& right) {
    return std::ranges::equal(left, right,
                              [](const auto& a, const auto& b) { return a.name == b.name && a.shape == b.shape; });
  };
  if (equal(training.parameters(), evaluation.parameters()) && equal(training.buffers(), evaluation.buffers())) return;
  fail(ExitCode::usage, "the variables of {} depend on the image size", trained.name);
}

void check_evaluation_images(const TrainOptions& options, const std::string& size) {
  const RecordForm& form = options.data.record_form;
  const ImageShape image = evaluated_shape(form);
  if (image == form.schema.image_shape) return;
  try {
    check_same_variables(network_to_train(options), network_for_images(options, image));
  } catch (const Error& error) {
    fail(error.code(), "{}: {}{}", subject(size, image), error.what(), size.empty() ? "" : ": omit --eval-image-size");
  }
}

void check_evaluation_fits(const TrainOptions& options, const std::string& size, const Device& device,
                           int local_ranks) {
  const ImageShape image = evaluated_shape(options.data.record_form);
  const Network network = network_for_images(options, image);
  if (device.kind() == DeviceKind::cuda) {
    return check_gpu_can_index(network, options.device.arithmetic, subject(size, image));
  }
  const BuildSettings build{options.data.evaluation_batch, options.device.arithmetic, Purpose::evaluation};
  check_batch_fits(build_network(network, build), device, local_ranks,
                   {.option = fmt::format("{}, {} at a time", subject(size, image), build.batch_size)});
}

namespace {

/// Returns the number of multiply-add operations per image, or nullopt if the network does not support the image size.
std::optional<double> work_of(const TrainOptions& options) {
  try {
    const BuiltNetwork built =
        build_network(network_to_train(options), {.batch_size = 1, .purpose = Purpose::evaluation});
    return static_cast<double>(multiply_adds(built.graph));
  } catch (const Error& error) {
    if (error.code() != ExitCode::usage) throw;
    return std::nullopt;
  }
}

}  // namespace

std::string faster_choice(const ProgramSpec& program_spec, const TrainOptions& options, bool evaluates_other_size) {
  if (program_spec.fast_network.empty() || is_synthetic(options.data.files)) return {};
  constexpr double least_gain = 1.5;
  const std::string fewer_steps = "fewer steps (--epochs, --max-steps)";
  TrainOptions fast = options;
  fast.model.make = network_named(program_spec, program_spec.fast_network);
  fast.model.sync_batch_norm = fast.model.freeze_batch_norm = false;
  ImageShape& image = fast.data.record_form.schema.image_shape;
  const bool smaller = program_spec.fast_image_size > 0 && image.height > program_spec.fast_image_size;
  if (smaller) image.height = image.width = program_spec.fast_image_size;
  const std::optional<double> work = work_of(fast);
  const double gain = work ? work_of(options).value() / *work : 0.0;
  if (gain < least_gain) return fewer_steps;
  std::string words;
  if (options.model.name != program_spec.fast_network) words += fmt::format("--model {} ", program_spec.fast_network);
  if (smaller) words += fmt::format("--image-size {} ", program_spec.fast_image_size);
  if (evaluates_other_size && !words.empty()) words += "--eval-image-size 0 ";
  return fmt::format("{}({:.0f} times less work per image), or {}", words, gain, fewer_steps);
}

}  // namespace carillon
