#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "carillon/cli/program_spec.h"
#include "src/cli/commands/evaluation_outputs.h"
#include "src/cli/launch/mpi_main.h"
#include "src/cli/options/option_groups.h"
#include "src/cli/options/picture_options.h"
#include "src/core/process.h"
#include "src/core/text.h"
#include "src/data/records/record_files.h"
#include "src/report/console.h"
#include "src/train/checkpointing/run_checkpoints.h"
#include "src/train/checkpointing/saved_network.h"
#include "src/train/control/agreement.h"
#include "src/train/control/rank_device.h"
#include "src/train/control/stop_signal.h"
#include "src/train/evaluation/evaluator.h"
#include "src/train/input/records.h"
#include "src/train/loop/training_setup.h"

namespace carillon {
namespace {

/// Checks that the program and the checkpoint belong together: image_eval evaluates only checkpoints of image_train,
/// and all other programs evaluate only other checkpoints. Errors: data (they do not belong together).
void check_pictures(const LoadedCheckpoint& loaded, const ProgramSpec& program_spec) {
  if (trained_pictures(loaded).has_value() == program_spec.of_pictures) return;
  fail(ExitCode::data, "{} was {}trained by image_train: evaluate it with {}", loaded.path.string(),
       program_spec.of_pictures ? "not " : "", program_spec.of_pictures ? "carillon evaluate" : "image_eval");
}

/// Returns the facts of a checkpoint that rank 0 sends to all ranks. Errors: data.
nlohmann::json description(const LoadedCheckpoint& loaded, const ProgramSpec& program_spec) {
  return {{"path", loaded.path.string()},
          {"network", description_text(network_of(loaded, program_spec.op_types))},
          {"options", loaded.state.options_json},
          {"trained in bf16", was_trained_in_bf16(loaded)}};
}

/// Returns the format of the records. A program with its own task or decoder has its own format. For other programs,
/// the checkpoint determines the format. Errors: data, usage.
RecordForm form_of(const nlohmann::json& known, const EvalOptions& options, const ProgramSpec& program_spec,
                   const ImageShape& image) {
  const std::string trained = known.at("options");
  if (program_spec.of_pictures) {
    PictureOptions pictures = described_pictures(trained).value();
    pictures.first_label = options.first_label;
    return evaluation_form(pictures, options.data.files);
  }
  const RecordForm& own = program_spec.defaults.data.record_form;
  if (program_spec.has_own_task() || !has_named_decoder(own)) return own;
  try {
    RecordForm form = described_records(trained);
    form.schema.image_shape = image;
    return form;
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", known.at("path").get<std::string>(), error.what());
  }
}

/// Opens the records of `form`. If the records cannot be read, and `form` has other keys than `usual`, the message
/// states which records the checkpoint requires.
Dataset open_data(const EvalOptions& options, const RecordForm& form, const ExampleKeys& usual,
                  const std::string& checkpoint, const Mpi& mpi) try {
  const DataOptions& data = options.data;
  const RecordOptions records{.image_key = data.image_key, .target_key = data.label_key, .cache = data.cache};
  Dataset dataset = open_records(data.files, form, RecordUse::evaluation, records, mpi);
  require_equal_on_all_ranks(mpi, {{"evaluation records", dataset.size()},
                                   {"evaluation record checksum", static_cast<std::uint64_t>(dataset.fingerprint())}});
  return dataset;
} catch (const SharedError& error) {
  const ExampleKeys& keys = form.schema.keys;
  if (error.code() != ExitCode::data || (keys.image == usual.image && keys.label == usual.label)) throw;
  throw SharedError(error.code(), fmt::format("{}; {} requires records with the features '{}' and '{}' in --data",
                                              error.what(), checkpoint, keys.image, keys.label));
}

/// Builds the network for the images of the evaluated records. Errors: data; the message names the checkpoint `path`.
BuiltNetwork build_for_evaluation(const Network& network, const BuildSettings& settings, const Task& task,
                                  const std::string& path) {
  try {
    BuiltNetwork built = build_network(network, settings);
    const std::int64_t outputs = built.graph.shape(built.output)[1];
    if (outputs == task.outputs) return built;
    fail(ExitCode::data, "its network has {} outputs, the task of the records {}", outputs, task.outputs);
  } catch (const Error& error) {
    fail(ExitCode::data, "{}: {}", path, error.what());
  }
}

/// Returns a text that names the evaluated values of the checkpoint, and test-time augmentation if the options request
/// it.
std::string values_text(const LoadedCheckpoint& loaded, const EvalOptions& options) {
  const bool averages = !options.raw_weights && has_moving_averages(loaded);
  const std::string values = averages ? "moving averages" : "variables";
  return options.data.test_time_augmentation ? values + ", test-time augmentation" : values;
}

/// Prints the result of the evaluation. `values`: the result of values_text.
void print_result(const LoadedCheckpoint& loaded, const std::string& values, const EvalOptions& options,
                  const Metric& metric) {
  const std::string note = is_synthetic(options.data.files) ? synthetic_note : "";
  fmt::print("{}: {} at step {}{}\n", printable(loaded.path.string()), values, loaded.state.global_step, note);
  for (const std::string& text : metric.other_texts()) fmt::print("{}{}\n", text, note);
  fmt::print("{}{}\n", metric.text(), note);
  flush_stdout();
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
  // This default is the same as in the evaluations during a training.
  options.device.precision = program_spec.defaults.device.precision;
  if (program_spec.of_pictures) {
    // the default batch size; larger batches may exceed the memory
    options.data.batch_size = program_spec.defaults.data.evaluation_batch;
  }
  return options;
}

ExitCode evaluate_checkpoint(const std::string& program, EvalOptions& options, const ProgramSpec& program_spec,
                             const std::vector<Isa>& isas, Device& device, StallDetector& stall_detector,
                             const Mpi& mpi) {
  std::optional<LoadedCheckpoint> loaded;  // only on rank 0
  std::string facts;                       // only on rank 0
  mpi.run_on_all([&] {
    if (mpi.rank() != 0) return;
    loaded = find_checkpoint(options.checkpoint, print_warning);
    check_pictures(*loaded, program_spec);
    facts = description(*loaded, program_spec).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  });
  const nlohmann::json known = nlohmann::json::parse(mpi.all_gather(facts).front());
  mpi.run_on_all([&] {
    if (options.device.precision) return;
    const Arithmetic precision = automatic_evaluation_precision(device.kind(), isas, known.at("trained in bf16"));
    set_precision(options.device, precision, device, isas, mpi);
  });
  Network network{read_description(known.at("network").get<std::string>(), known_op_types(program_spec.op_types))};
  if (options.data.pixel_scale > 0.0) set_pixel_scale(network, static_cast<float>(options.data.pixel_scale));
  RecordForm form;
  mpi.run_on_all([&] { form = form_of(known, options, program_spec, network.image); });
  const RecordForm& usual = program_spec.of_pictures ? form : program_spec.defaults.data.record_form;
  const Dataset dataset = open_data(options, form, usual.schema.keys, known.at("path"), mpi);
  network.image = dataset.image_shape();
  const Task task = task_of(program_spec, form.schema);
  const TargetKind target = form.schema.target;
  const BuildSettings build{options.data.batch_size, options.device.arithmetic, Purpose::evaluation};
  std::optional<Evaluator> evaluator;
  mpi.run_on_all([&] {
    const BuiltNetwork built = build_for_evaluation(network, build, task, known.at("path"));
    check_batch_fits(built, device, mpi.local_size(),
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
  const auto batch_size = static_cast<std::size_t>(options.data.batch_size);
  const RecordRange own = part_of(dataset, mpi).records;
  const std::size_t batches = (own.end - own.begin + batch_size - 1) / batch_size;
  std::int64_t done = 0;
  Progress progress(0, static_cast<std::int64_t>(batches), progress_output(), Progress::Clock::now(), "batch");
  const std::unique_ptr<Metric> metric = evaluator->evaluate(metric_for(options, target, task), dataset, mpi, [&] {
    heartbeat();
    ++done;
    if (mpi.rank() == 0) progress.update(done, std::nullopt);
  });
  progress.clear();
  mpi.run_on_all([&] {
    if (!loaded) return;
    const std::string values = values_text(*loaded, options);
    print_result(*loaded, values, options, *metric);
    write_outputs({program, options, program_spec, *loaded, values, dataset, task, target, *metric}, heartbeat);
  });
  return ExitCode::done;
}

/// Declares the options of all evaluation programs.
void declare(OptionSet& set, EvalOptions& o) {
  declare_for_evaluation(set, o.data);
  set.add("checkpoint", o.checkpoint, "checkpoint, or train directory: its newest good checkpoint");
  set.add("raw-weights", o.raw_weights,
          "evaluate the variables in place of their moving averages (if --moving-average-decay was above 0)");
  set.add(
      "report", o.report,
      "files for the results of each class, label or number: NAME.html (a page for a browser), NAME.json, NAME.csv");
  set.add("predictions", o.predictions, "file for the target and the prediction of each record: NAME.csv");
  set.add("mistakes", o.mistakes, "file for a sheet of the pictures with the worst predictions: NAME.png");
  set.arrange({"data", "image-key", "label-key", "checkpoint", "raw-weights", "report", "predictions", "mistakes"});
  declare_for_evaluation(set, o.device);
  declare_for_evaluation(set, o.faults);
}

/// Returns the options of the program, with `program_spec`'s defaults. Parsing the result sets `options`.
OptionSet option_set(const std::string& program, EvalOptions& options, const ProgramSpec& program_spec) {
  options = defaults_of(program_spec);
  OptionSet set({.program = program,
                 .purpose = fmt::format(
                     "Prints the {} of a checkpoint on {}",
                     program_spec.has_own_task() || program_spec.of_pictures ? "scores" : "accuracy (precision @ 1)",
                     program_spec.data_set),
                 .synopses = {fmt::format("{} --data FILES --checkpoint FILE_OR_DIR", program)}});
  declare(set, options);
  introduce(set, program);
  set.begin_group("Data");
  if (program_spec.of_pictures) {
    set.add("first-label", options.first_label, -1, 1,
            "label of the first class; -1: as in records.json, else as in the training");
  }
  if (program_spec.distorts) {
    set.add("test-time-augmentation", options.data.test_time_augmentation, test_time_augmentation_help);
  } else {
    set.add("pixel-scale", options.data.pixel_scale, NumberRange::not_negative,
            "factor for the pixels 0..255; 0: as in training");
  }
  return set;
}

ExitCode evaluate(const std::string& program, const ProgramSpec& program_spec, int argc, char** argv, const Mpi& mpi) {
  EvalOptions options;
  OptionSet set = option_set(program, options, program_spec);
  if (!parse_on_all_ranks(set, argc, argv, mpi)) return ExitCode::done;
  mpi.run_on_all([&] {
    check_default_data(set, options.data.files);
    check_no_folders(options.data.files, evaluation_splits);
    check_shards(options.data, options.data.files);
    const std::string output = output_option(options);
    if (output.empty()) return;
    if (program_spec.has_own_task())
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
  finish_start();
  return abort_on_own_error(mpi, program, stall_detector, [&] {
    return evaluate_checkpoint(program, options, program_spec, isas, *device, stall_detector, mpi);
  });
}

}  // namespace

void check_evaluation_options(const std::string& program, const ProgramSpec& program_spec,
                              const std::vector<std::string>& words) {
  EvalOptions options;
  option_set(program, options, program_spec).parse(joined({program}, words));
}

int evaluation_main(const std::string& program, const ProgramSpec& program_spec, int argc, char** argv) {
  bound_spinning();
  const auto manual = [&] {
    EvalOptions options;
    return option_set(program, options, program_spec).manual();
  };
  if (print_document(argc, argv, manual)) return 0;
  return mpi_main(program, argc, argv,
                  [&](const Mpi& mpi) { return evaluate(program, program_spec, argc, argv, mpi); });
}

}  // namespace carillon
