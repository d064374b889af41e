#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "carillon/app/mains.h"
#include "src/app/evaluation_outputs.h"
#include "src/app/mpi_main.h"
#include "src/app/picture_options.h"
#include "src/app/precision.h"
#include "src/app/saved_network.h"
#include "src/app/startup.h"
#include "src/core/printable.h"
#include "src/options/eval_options.h"
#include "src/options/option_groups.h"
#include "src/report/console.h"
#include "src/train/checkpointing/training_state.h"
#include "src/train/control/agreement.h"
#include "src/train/evaluation/evaluator.h"
#include "src/train/input/open_records.h"
#include "src/train/loop/training_setup.h"

namespace carillon {
namespace {

/// Size limit of a checkpoint: that of the largest network of the program.
std::uint64_t max_checkpoint_bytes(const ProgramSpec& program_spec) {
  RecordSchema records = program_spec.defaults.data.record_form.schema;
  if (program_spec.of_pictures) records.class_count = max_classes;
  const std::int64_t outputs = task_of(program_spec, records).outputs;
  std::uint64_t largest = 0;
  for (const std::string& name : network_names(program_spec)) {
    try {
      const Network network = network_named(program_spec, name)({.image = records.image_shape, .outputs = outputs});
      largest = std::max(largest, max_checkpoint_bytes(network));
    } catch (const Error& error) {
      if (error.code() != ExitCode::usage) throw;  // a network for other, smaller images
    }
  }
  return largest;
}

void check_model(const LoadedCheckpoint& loaded, const ProgramSpec& program_spec) {
  const std::vector<std::string> names = network_names(program_spec);
  if (std::ranges::find(names, loaded.state.model) != names.end()) return;
  fail(ExitCode::data, "{} holds model '{}', and this program evaluates {}: carillon evaluate finds the right program",
       loaded.path.string(), printable(loaded.state.model), fmt::join(names, ", "));
}

/// Errors: data (image_train and other programs evaluate only their own checkpoints).
void check_pictures(const LoadedCheckpoint& loaded, const ProgramSpec& program_spec) {
  if (trained_pictures(loaded).has_value() == program_spec.of_pictures) return;
  fail(ExitCode::data, "{} was {}trained by image_train: evaluate it with {}", loaded.path.string(),
       program_spec.of_pictures ? "not " : "", program_spec.of_pictures ? "carillon evaluate" : "image_eval");
}

/// The facts of a checkpoint that rank 0 sends to all ranks. `given_scale`: replaces its pixel scale unless 0.
nlohmann::json description(const LoadedCheckpoint& loaded, double given_scale) {
  return {{"path", loaded.path.string()},
          {"model", loaded.state.model},
          {"options", loaded.state.options_json},
          {"trained in bf16", was_trained_in_bf16(loaded)},
          {"pixel_scale", given_scale > 0.0 ? given_scale : trained_pixel_scale(loaded)}};
}

/// The form of the records, and the normalisation that the network expects.
struct EvaluatedForm {
  RecordForm records;
  std::optional<PixelNormalization> normalization;
};

EvaluatedForm form_of(const nlohmann::json& known, const EvalOptions& options, const ProgramSpec& program_spec,
                      const Mpi& mpi) {
  if (!program_spec.of_pictures) return {program_spec.defaults.data.record_form, std::nullopt};
  PictureOptions pictures = described_pictures(known.at("options").get<std::string>()).value();
  pictures.first_label = options.first_label;
  EvaluatedForm form;
  mpi.run_on_all([&] { form.records = evaluation_form(pictures, options.data.files); });
  form.normalization = normalization_of(pictures.preprocessing);
  return form;
}

Dataset open_data(const EvalOptions& options, const RecordForm& form, const Mpi& mpi) {
  const DataOptions& data = options.data;
  const RecordOptions records{.image_key = data.image_key, .target_key = data.label_key, .cache = data.cache};
  Dataset dataset = open_records(data.files, form, RecordUse::evaluation, records, mpi);
  require_equal_on_all_ranks(mpi, {{"evaluation records", dataset.size()},
                                   {"evaluation record checksum", static_cast<std::uint64_t>(dataset.fingerprint())}});
  return dataset;
}

/// Names the evaluated values of the checkpoint, and the method.
std::string values_text(const LoadedCheckpoint& loaded, const EvalOptions& options) {
  const bool averages = !options.raw_weights && has_moving_averages(loaded);
  const std::string values = averages ? "moving averages" : "variables";
  return options.data.test_time_augmentation ? values + ", test-time augmentation" : values;
}

bool has_own_task(const ProgramSpec& program_spec) { return program_spec.make_task != nullptr; }

/// Prints the result. `values`: those that were evaluated.
void print_result(const LoadedCheckpoint& loaded, const std::string& values, const EvalOptions& options,
                  const Metric& metric) {
  const std::string note = is_synthetic(options.data.files) ? synthetic_note : "";
  fmt::print("{}: {} at step {}{}\n", printable(loaded.path.string()), values, loaded.state.global_step, note);
  for (const std::string& text : metric.other_texts()) fmt::print("{}{}\n", text, note);
  fmt::print("{}{}\n", metric.text(), note);
  if (std::fflush(stdout) != 0) fail(ExitCode::io, "cannot write to standard output: {}", errno_text(errno));
}

EvalOptions defaults_of(const ProgramSpec& program_spec) {
  EvalOptions options;
  options.data.files = program_spec.defaults.data.files;
  for (std::string& pattern : options.data.files) {
    const std::size_t at = pattern.find("train-");
    check(at != pattern.npos, "a default of --data has no 'train-' in its name");
    pattern.replace(at, 6, program_spec.evaluation_split);
  }
  options.checkpoint = program_spec.defaults.checkpoint.train_dir;
  options.device.precision = program_spec.defaults.device.precision;  // as the evaluations of a training
  if (program_spec.of_pictures) {
    options.data.batch_size = program_spec.defaults.data.evaluation_batch;  // larger ones may exceed the memory
  }
  return options;
}

ExitCode evaluate_checkpoint(const std::string& program, EvalOptions& options, const ProgramSpec& program_spec,
                             const std::vector<Isa>& isas, Device& device, StallDetector& stall_detector,
                             const Mpi& mpi) {
  std::optional<LoadedCheckpoint> loaded;  // on rank 0
  std::string facts;                       // on rank 0
  mpi.run_on_all([&] {
    if (mpi.rank() != 0) return;
    loaded =
        find_checkpoint(options.checkpoint, print_warning, checkpoint_read_limit(max_checkpoint_bytes(program_spec)));
    check_model(*loaded, program_spec);
    check_pictures(*loaded, program_spec);
    facts =
        description(*loaded, options.data.pixel_scale).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  });
  const nlohmann::json known = nlohmann::json::parse(mpi.all_gather(facts).front());
  mpi.run_on_all([&] {
    if (options.device.precision) return;
    const Arithmetic precision = automatic_evaluation_precision(device.kind(), isas, known.at("trained in bf16"));
    set_precision(options.device, precision, device, isas, mpi);
  });
  const auto scale = known.at("pixel_scale").get<float>();
  const EvaluatedForm form = form_of(known, options, program_spec, mpi);
  const Dataset dataset = open_data(options, form.records, mpi);
  const Task task = task_of(program_spec, form.records.schema);
  const TargetKind target = form.records.schema.target;
  const MakeNetwork make_network = network_named(program_spec, known.at("model").get<std::string>());
  NetworkSettings settings{.image = dataset.image_shape(),
                           .outputs = task.outputs,
                           .pixel_scale = scale,
                           .normalization = form.normalization};
  mpi.run_on_all([&] { settings.density = dataset.density(); });
  Network network;
  mpi.run_on_all([&] { network = make_saved_network(make_network, settings, known.at("path").get<std::string>()); });
  const BuildSettings build{options.data.batch_size, options.device.arithmetic, Purpose::evaluation};
  std::optional<Evaluator> evaluator;
  mpi.run_on_all([&] {
    check_batch_fits(build_network(network, build), device, mpi.local_size(),
                     {.option = fmt::format("--batch-size {}", options.data.batch_size)});
    evaluator.emplace(network,
                      EvaluatorSettings{.batch_size = options.data.batch_size,
                                        .arithmetic = options.device.arithmetic,
                                        .test_time_augmentation = options.data.test_time_augmentation,
                                        .decode_threads = static_cast<int>(options.data.decode_threads)},
                      device);
    const TrainedValues values = options.raw_weights ? TrainedValues::variables : TrainedValues::moving_averages;
    if (loaded) evaluator->load(*loaded, values);
  });
  evaluator->broadcast_from_first(mpi);
  stall_detector.enter(Phase::evaluation, 0);
  const auto heartbeat = [&] { stall_detector.heartbeat(); };
  mpi.run_on_all([&] { check_outputs_fit(options, target, task.outputs); });
  const std::unique_ptr<Metric> metric =
      evaluator->evaluate(metric_for(options, target, task), dataset, mpi, heartbeat);
  mpi.run_on_all([&] {
    if (!loaded) return;
    const std::string values = values_text(*loaded, options);
    print_result(*loaded, values, options, *metric);
    write_outputs({program, options, program_spec, *loaded, values, dataset, task, target, *metric}, heartbeat);
  });
  return ExitCode::done;
}

/// The options of the program, with `program_spec`'s defaults. They set `options`.
OptionSet option_set(const std::string& program, EvalOptions& options, const ProgramSpec& program_spec) {
  options = defaults_of(program_spec);
  OptionSet set({.program = program,
                 .purpose = fmt::format(
                     "Prints the {} of a checkpoint on {}",
                     has_own_task(program_spec) || program_spec.of_pictures ? "scores" : "accuracy (precision @ 1)",
                     program_spec.data_set),
                 .synopses = {fmt::format("{} --data FILES --checkpoint FILE_OR_DIR", program)}});
  declare(set, options);
  introduce(set, program);
  if (program_spec.of_pictures) declare_first_label(set, options);
  if (program_spec.distorts) {
    declare_test_time_augmentation(set, options.data);
  } else {
    declare_pixel_scale_for_evaluation(set, options.data);
  }
  return set;
}

ExitCode evaluate(const std::string& program, const ProgramSpec& program_spec, int argc, char** argv, const Mpi& mpi) {
  EvalOptions options;
  OptionSet set = option_set(program, options, program_spec);
  if (!parse_on_all_ranks(set, argc, argv, mpi)) return ExitCode::done;
  mpi.run_on_all([&] {
    check_default_data(set, options.data.files);
    const std::string output = output_option(options);
    if (output.empty()) return;
    if (has_own_task(program_spec))
      fail(ExitCode::usage, "{} is not available for a program with its own task", output);
    if (mpi.rank() == 0) check_output_places(options);
  });

  const CpuShare cpu = take_cpu_share(mpi, static_cast<int>(options.device.threads));
  std::unique_ptr<Device> device;
  const std::vector<Isa> isas = possible_isas(options.device, mpi);
  mpi.run_on_all([&] {
    device = open_own_device(options.device, mpi, cpu);
    if (options.device.precision) set_precision(options.device, *options.device.precision, *device, isas, mpi);
  });
  StallDetector stall_detector(mpi, stall_detector_settings(options.faults.stall_timeout, *device, mpi, program));
  return abort_on_own_error(mpi, program, stall_detector, [&] {
    return evaluate_checkpoint(program, options, program_spec, isas, *device, stall_detector, mpi);
  });
}

}  // namespace

void check_evaluation_options(const std::string& program, const ProgramSpec& program_spec,
                              const std::vector<std::string>& words) {
  EvalOptions options;
  OptionSet set = option_set(program, options, program_spec);
  std::vector<std::string> arguments{program};
  arguments.insert(arguments.end(), words.begin(), words.end());
  set.parse(arguments);
}

int evaluation_main(const std::string& program, const ProgramSpec& program_spec, int argc, char** argv) {
  const auto manual = [&] {
    EvalOptions options;
    return option_set(program, options, program_spec).manual();
  };
  if (print_document(argc, argv, manual)) return 0;
  return mpi_main(program, argc, argv,
                  [&](const Mpi& mpi) { return evaluate(program, program_spec, argc, argv, mpi); });
}

}  // namespace carillon
