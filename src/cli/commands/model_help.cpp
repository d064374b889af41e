#include "src/cli/commands/commands.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>

#include "carillon/core/error.h"
#include "src/data/decode/dataset_info.h"
#include "src/report/console.h"
#include "src/train/control/rank_device.h"

namespace carillon {
namespace {

/// Returns the records that --model help assumes. If --data is given, its records define the classes.
RecordSchema schema_for_list(const OptionSet& set, const ProgramSpec& program_spec, const TrainOptions& options,
                             const PictureOptions& pictures) {
  RecordSchema schema = options.data.record_form.schema;
  if (!program_spec.of_pictures) return schema;
  schema.image_shape = training_shape(pictures);
  if (pictures.classes > 0) {
    schema.class_count = pictures.classes;
  } else if (set.given("data") && !is_synthetic(options.data.files)) {
    const std::optional<DatasetInfo> info = dataset_info_of_files(options.data.files);
    if (info) schema.class_count = static_cast<std::int64_t>(info->classes.size());
  }
  return schema;
}

}  // namespace

void print_networks(const OptionSet& set, const ProgramSpec& program_spec, TrainOptions& options,
                    const PictureOptions& pictures, const Mpi& mpi) {
  constexpr double seconds = 15.0,
                   most_seconds = 40.0;  // planned time and maximum time, in seconds, for the measurements of all
                                         // networks together
  const CpuShare cpu = take_cpu_share(mpi, static_cast<int>(options.device.threads));
  const std::vector<Isa> isas = possible_isas(options.device, mpi);
  std::unique_ptr<Device> device;
  RecordSchema schema;
  mpi.run_on_all([&] {
    device = open_own_device(options.device, mpi, cpu);
    schema = schema_for_list(set, program_spec, options, pictures);
  });
  const DataOptions& data = options.data;
  const Task task = task_of(program_spec, schema, options.task);
  OptimizerSettings update = options.optimizer.update;
  update.groups.clear();  // without groups: their patterns may match no variable of a listed network
  update.decay_exclude.clear();
  update.layer_decay = 1.0;
  StepTimeSettings settings{
      .network = {.image = schema.image_shape,
                  .outputs = task.outputs,
                  .regularization = static_cast<float>(options.optimizer.regularization),
                  .distort = data.distort && program_spec.distorts && !program_spec.of_pictures},
      .task = task,
      .optimizer = update,
      .batch_size = std::max<std::int64_t>(1, data.global_batch > 0 ? data.global_batch / mpi.size() : data.batch_size),
      .seconds = seconds / static_cast<double>(program_spec.networks.size()),
      .processes = mpi.local_size()};
  const auto start = std::chrono::steady_clock::now();
  const auto measure = [&](const NamedNetwork& network) -> std::optional<StepTime> {
    if (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > most_seconds)
      return std::nullopt;
    const Network made = network.make(settings.network);
    settings.arithmetic =
        options.device.precision.value_or(automatic_precision(device->kind(), isas, made, settings.batch_size));
    return measure_step(network.make, settings, *device);
  };
  std::string list;
  mpi.run_on_all([&] { list = network_list(program_spec, schema.image_shape, task.outputs, measure); });
  if (mpi.rank() != 0) return;
  print_text(STDOUT_FILENO,
             fmt::format("{}A training step of one rank, measured on noise on {} ({} thread{}), {} rank{} at the same "
                         "time, without reading records\n",
                         list, device->name(), cpu.thread_count, cpu.thread_count == 1 ? "" : "s", mpi.size(),
                         mpi.size() == 1 ? "" : "s"));
}

namespace {

/// If one image needs more work than this, the training step is not measured: the measurement would take too long.
constexpr std::int64_t most_measured_work = 30'000'000'000;  // in multiply-adds

std::string step_columns(const NamedNetwork& network, std::int64_t work, const MeasureNetwork& measure) {
  if (work > most_measured_work) return "  not measured: more than 30 billion multiply-adds";
  const std::optional<StepTime> time = measure(network);
  if (!time) return "  not measured: the others took too long";
  return fmt::format(" {:>8} {:>11.3g} {:>9.4g}", time->batch_size, time->seconds, 1.0 / time->seconds_per_image());
}

}  // namespace

std::string network_list(const ProgramSpec& program_spec, const ImageShape& image, std::int64_t outputs,
                         const MeasureNetwork& measure) {
  std::size_t width = 0;
  for (const NamedNetwork& named : program_spec.networks) width = std::max(width, named.name.size());
  std::string lines = fmt::format("{:<{}} {:>12} {:>22} {:>8} {:>11} {:>9}\n", "network", width, "parameters",
                                  "multiply-adds an image", "batch", "s per step", "images/s");
  for (const NamedNetwork& named : program_spec.networks) {
    try {
      const Network network = named.make({.image = image, .outputs = outputs});
      const BuiltNetwork built = build_network(network, {.batch_size = 1, .purpose = Purpose::evaluation});
      const std::int64_t work = multiply_adds(built.graph);
      lines += fmt::format("{:<{}} {:>12} {:>22}{}\n", named.name, width, parameter_count(built.graph), work,
                           step_columns(named, work, measure));
    } catch (const Error& error) {
      if (error.code() != ExitCode::usage) throw;
      lines += fmt::format("{:<{}} {}\n", named.name, width, error.what());
    }
  }
  return lines;
}

}  // namespace carillon
