#include <algorithm>
#include <filesystem>
#include <optional>

#include "carillon/cli/program_spec.h"
#include "carillon/core/error.h"
#include "kernels/attention/attention.h"
#include "kernels/dropout/dropout.h"
#include "src/checkpoint/checkpoint.h"
#include "src/cli/commands/commands.h"
#include "src/cli/launch/mpi_main.h"
#include "src/cli/launch/ranks.h"
#include "src/cli/launch/resolve_training.h"
#include "src/cli/options/option_groups.h"
#include "src/cli/options/picture_options.h"
#include "src/comm/mpi/launcher.h"
#include "src/comm/stall/stall_detector.h"
#include "src/core/crc32c.h"
#include "src/core/process.h"
#include "src/data/records/record_files.h"
#include "src/onnx/onnx.h"
#include "src/report/console.h"
#include "src/step/gradients/reducer.h"
#include "src/tasks/classification.h"
#include "src/train/checkpointing/saved_network.h"
#include "src/train/checkpointing/torch_weights.h"
#include "src/train/control/agreement.h"
#include "src/train/control/rank_device.h"
#include "src/train/control/stop_signal.h"
#include "src/train/input/records.h"
#include "src/train/loop/trainer.h"
#include "src/train/loop/training_setup.h"
#include "src/train/preflight/preflight.h"

namespace carillon {
namespace {

/// The value of --model that prints the list of networks.
constexpr std::string_view list_networks = "help";

/// Returns the options of the program, with `program_spec`'s defaults. Parsing the result sets `options` and
/// `pictures`.
OptionSet option_set(const std::string& program, TrainOptions& options, PictureOptions& pictures,
                     const ProgramSpec& program_spec) {
  options = program_spec.defaults;
  options.model.name = program_spec.networks.front().name;
  OptionSet set({.program = program,
                 .purpose = fmt::format("Trains a network on {} with one or more ranks", program_spec.data_set),
                 .synopses = {fmt::format("{} --ranks N --data FILES --train-dir DIR", program),
                              fmt::format("mpirun -np N {} --data FILES --train-dir DIR", program)}});
  declare(set, options);
  std::vector<std::string> names = network_names(program_spec);
  names.emplace_back(list_networks);
  declare_network(set, options.model, names);
  if (program_spec.of_pictures) {
    declare(set, pictures);
    declare_regression(set, options.task);
  }
  set.begin_group("Data", Scope::result);
  if (program_spec.distorts) {
    set.add("distort", options.data.distort, "random distortion of the training images");
    set.add("test-time-augmentation", options.data.test_time_augmentation, test_time_augmentation_help).scope =
        Scope::run;
  } else {
    set.add("pixel-scale", options.data.pixel_scale, NumberRange::positive, "factor for the pixels 0..255");
  }
  introduce(set, program);
  return set;
}

/// Checks that --distort is set if an augmentation requires it, and that --eval-data is set if --test-time-augmentation
/// is set. Errors: usage.
void check_augmentation(const OptionSet& set, const DataOptions& data, const PictureOptions& pictures) {
  for (const auto& [augments, name] : {std::pair(pictures.rand_augment.op_count > 0, "rand-augment"),
                                       {pictures.random_erasing > 0.0, "random-erasing"},
                                       {pictures.flip_vertical, "flip-vertical"},
                                       {pictures.quarter_turns, "quarter-turns"},
                                       {pictures.color_jitter > 0.0, "color-jitter"}}) {
    if (augments && !data.distort && set.is_on_command_line(name)) {
      fail(ExitCode::usage, "--{} requires --distort", name);
    }
  }
  if (!data.test_time_augmentation || !data.eval_files.empty()) return;
  // A recipe may set the option without --eval-data, because some users add --eval-data to the recipe.
  if (!set.is_on_command_line("test-time-augmentation")) return;
  fail(ExitCode::usage, "--test-time-augmentation requires --eval-data");
}

/// Checks that, with muon, all ranks use the same instruction set. With muon, each rank orthogonalises all matrices,
/// and the results must be equal on all ranks. Errors: usage.
void check_same_products(const OptimizerSettings& update, const std::string& isas) {
  if (!update.rule.starts_with("muon") || isas.find(", ") == std::string::npos) return;
  fail(ExitCode::usage, "--optimizer {} requires one instruction set on all ranks, which have {}: set --isa",
       update.rule, isas);
}

RunDescription describe(const OptionSet& set, const ProgramSpec& program_spec, const TrainOptions& options,
                        const PictureOptions& pictures, const Mpi& mpi, const std::string& isas) {
  const DataOptions& data = options.data;
  RunDescription description = set.values();
  if (program_spec.of_pictures) {
    describe_pictures(pictures, data.record_form.schema, description);
  } else {
    RecordForm form = data.record_form;
    if (!data.image_key.empty()) form.schema.keys.image = data.image_key;
    if (!data.label_key.empty()) form.schema.keys.label = data.label_key;
    describe_records(form, options.task.value, program_spec.has_own_task(), program_spec.class_names, description);
  }
  // Programs with a single network do not store `model` as an option. Their checkpoints store the name as
  // CheckpointState::model.
  if (program_spec.networks.size() == 1) description.remove("model");
  description.remove("epochs");                                 // max_steps already states the length of the training
  if (data.global_batch > 0) description.remove("batch_size");  // removed, because it depends on the number of ranks
  if (!has_bits_of_any_rank_count(data, mpi)) description.add("tower count", mpi.size(), Scope::result);
  const std::vector<double>& weights = options.task.weights_of_file;
  if (!weights.empty()) {
    description.add("class weight checksum", std::uint64_t{crc32c(std::as_bytes(std::span(weights)))}, Scope::result);
  }
  if (!isas.empty()) description.add("instruction set", isas, Scope::result);
  for (const std::string_view option : options_without_effect(options)) description.mark_without_effect(option);
  return description;
}

/// Checks that the network has residual blocks if --drop-path is set. Errors: usage.
void check_drop_path(const ModelOptions& o, const Graph& graph) {
  const auto drops = [](const Graph::Node& node) { return node.type == &drop_path_op; };
  if (o.drop_path == 0.0 || std::ranges::any_of(graph.nodes(), drops)) return;
  fail(ExitCode::usage, "--drop-path: the network {} has no residual blocks (omit --drop-path)", o.name);
}

/// Reduces the default number of summaries on GPUs, because a step with a summary waits for the GPU and launches its
/// kernels one by one.
void resolve_summaries(const OptionSet& set, const Device& device, LoggingOptions& logging) {
  constexpr std::int64_t on_gpus = 100;
  if (device.kind() != DeviceKind::cuda || set.given("summary-every") || logging.summary_every == 0) return;
  logging.summary_every = std::max(logging.summary_every, on_gpus);
}

/// True if a preflight finds the training data. If the user names files, these files must exist. The default files may
/// be missing on all hosts, because a preflight can run without data. Collective. Errors: no_input (a named file is
/// missing); usage (the ranks disagree).
bool preflight_finds_data(const OptionSet& set, const DataOptions& data, const Mpi& mpi) {
  bool found = true;
  mpi.run_on_all([&] {
    if (!data.eval_files.empty()) check_files_exist(data.eval_files);
    try {
      check_files_exist(data.files);
    } catch (const Error& error) {
      if (error.code() != ExitCode::no_input || set.given("data")) throw;
      found = false;
    }
  });
  require_equal_on_all_ranks(mpi, {{"whether the default data files exist", found}});
  return found;
}

/// True if --config names the settings of the next plan of `carillon train`.
bool begins_plan(const OptionSet& set, const std::filesystem::path& train_dir) {
  const std::vector<std::string> words = set.words_given([](const std::string& name) { return name == "config"; });
  return !words.empty() && std::filesystem::path(words.back()) == train_dir / next_plan_settings_name;
}

/// Runs --preflight.
ExitCode run_preflight(const std::string& program, const TrainOptions& options, const CpuShare& cpu, const Mpi& mpi,
                       Device& device, Communicator& communicator, StallDetector& stall_detector) {
  const Network network = network_to_train(options);
  const BuiltNetwork built = build_network(network, {1, Arithmetic::fp32, Purpose::training});
  const TowerSettings tower = tower_settings(options);
  const std::int64_t divisor = averaging_of(tower, mpi.size()).divisor;
  const auto parameters = static_cast<std::size_t>(parameter_count(built.graph));
  const PreflightSubject subject{
      .version = version_text(program),
      .instructions = isa_text(device, options.device.arithmetic),
      .network = network.name,
      .train_dir = options.checkpoint.train_dir,
      .shares_gpus = options.device.share_gpus,
      .gradients = parameters,
      .shared_bytes = shared_bytes(parameters, options.optimizer.settings(), device, communicator),
      .bucket_bytes = bucket_bytes_on(device.kind(), tower.bucket_bytes, mpi.hosts()),
      .divisor = divisor > 0 ? divisor : mpi.size()};
  return abort_on_own_error(mpi, program, stall_detector, [&] {
    preflight(subject, cpu, mpi, device, communicator);
    return ExitCode::done;
  });
}

/// If a preflight for pictures finds no data, uses synthetic data. If --classes is missing, assumes the number of
/// classes of synthetic data.
void resolve_missing_pictures(const PictureOptions& pictures, DataOptions& data, const Mpi& mpi) {
  if (pictures.classes == 0 && mpi.rank() == 0) {
    print_text(STDOUT_FILENO,
               fmt::format("no data: assumes {} classes; --data or --classes sets the number\n", imagenet_classes));
  }
  data.files = {"synthetic"};
}

/// Checks that the task supports the given options. The task of a user's own program may not support all of them.
/// Errors: usage (the task does not support an option).
void check_task(const TrainOptions& options) {
  const Task& task = options.task.value;
  if (options.task.weighs_classes() && !task.loss_of_records) {
    fail(ExitCode::usage, "--class-weights requires a classification");
  }
  if (options.data.sampling == Sampling::balanced && !task.group_of) {
    fail(ExitCode::usage, "--sampling balanced requires a classification");
  }
}

/// Warns on rank 0 if a vision transformer gets weights from a file and --preprocessing is missing. Such weights
/// probably need another normalisation of the pixels than the default.
void warn_of_pixels(const OptionSet& set, const TrainOptions& options, const Mpi& mpi) {
  if (mpi.rank() != 0 || set.given("preprocessing")) return;
  const CheckpointOptions& checkpoint = options.checkpoint;
  if (!is_weight_file(checkpoint.init_from)) return;
  const ImageShape& image = options.data.record_form.schema.image_shape;
  if (!has_op(options.model.make({.image = image, .outputs = 1}), attention_op)) return;
  const bool resumes = !checkpoint.fresh && !list_checkpoints(checkpoint.train_dir).empty();
  if (resumes) return;
  print_warning(
      "--preprocessing is missing: most of timm's vision transformers expect inception, DeiT expects torchvision; "
      "torchvision is used");
}

/// Returns the option --eval-image-size with its value, for messages, or an empty text if the option is not set.
std::string evaluation_size_text(const PictureOptions& pictures) {
  return pictures.eval_image_size > 0 ? fmt::format("--eval-image-size {}", pictures.eval_image_size) : "";
}

/// Returns the function that makes the network of --model. If the ONNX file is missing, a resumed training takes the
/// network from its newest checkpoint. Errors: usage (--head or --fresh-weights is set, but there is no ONNX file), and
/// the errors of reading the file.
MakeNetwork network_of_options(const OptionSet& set, const ProgramSpec& program_spec, const TrainOptions& options) {
  const ModelOptions& model = options.model;
  if (!is_onnx_file(model.name)) {
    for (const char* const name : {"head", "fresh-weights"}) {
      if (set.is_on_command_line(name)) fail(ExitCode::usage, "--{} requires --model FILE.onnx", name);
    }
    return network_named(program_spec, model.name);
  }
  std::error_code absent;
  if (!std::filesystem::exists(model.name, absent) && !options.checkpoint.fresh) {
    if (const auto loaded = read_newest_checkpoint(options.checkpoint.train_dir, print_warning)) {
      return [network = network_of(*loaded)](const NetworkSettings& settings) {
        Network made = network;
        made.distort = settings.distort;
        made.record_count = settings.record_count;
        made.seed = settings.seed;
        return made;
      };
    }
  }
  return onnx_network(model.name, {.head = model.head, .fresh_weights = model.fresh_weights});
}

/// Checks the parsed options. Sets the options that depend on other options, on the records or on the number of ranks.
void resolve(const OptionSet& set, const ProgramSpec& program_spec, bool finds_data, TrainOptions& options,
             PictureOptions& pictures, const Mpi& mpi) {
  options.model.make = network_of_options(set, program_spec, options);
  choose_length(set, options.optimizer);
  check_combinations(set, options);
  check_augmentation(set, options.data, pictures);
  if (program_spec.of_pictures) {
    if (!finds_data) resolve_missing_pictures(pictures, options.data, mpi);
    check_default_data(set, options.data.files);
    resolve_pictures(pictures, options.data, options.model.seed);
    warn_of_pixels(set, options, mpi);
  }
  const RecordSchema& schema = options.data.record_form.schema;
  check_for_target(set, options.task, schema.target);
  if (options.checkpoint.fit_head && schema.target != TargetKind::class_index) {
    fail(ExitCode::usage, "--fit-head requires a classification, but the task of the records is {}",
         task_name(schema.target));
  }
  if (schema.target == TargetKind::numbers && !set.given("clip-norm")) {
    // The first gradients of a squared error are large. At the usual learning rates, these gradients make networks with
    // batch norm diverge.
    options.optimizer.update.clip_norm = 1.0;
  }
  if (options.task.has_weight_file()) {
    options.task.weights_of_file =
        read_class_weights(options.task.class_weights, schema.class_count,
                           program_spec.of_pictures ? pictures.class_names : program_spec.class_names);
  }
  options.task.value = task_of(program_spec, schema, options.task);
  check_task(options);
  resolve_batch(options.data, options.optimizer.schedule, program_spec, mpi.size());
  const Network network = network_to_train(options);  // throws an error if the network does not support the image shape
  options.model.name = network.name;                  // for an ONNX file, network.name differs from the option
  const Graph graph = build_network(network, {1, Arithmetic::fp32, Purpose::training}).graph;
  check_drop_path(options.model, graph);
  check_evaluation_images(options, evaluation_size_text(pictures));
  check_variables(options.optimizer.settings(), graph.parameters());
  if (options.optimizer.epochs == 0.0) resolve_ends(options.optimizer);
  options.logging.faster_choice = faster_choice(program_spec, options, pictures.eval_image_size > 0);
}

/// Opens the device of a training, and checks the options that depend on it. `evaluation_size`: the result of
/// evaluation_size_text.
std::unique_ptr<Device> open_training_device(TrainOptions& options, const std::string& evaluation_size,
                                             const std::vector<Isa>& isas, const Mpi& mpi, const CpuShare& cpu) {
  std::unique_ptr<Device> device = open_own_device(options.device, mpi, cpu);
  const Network network = network_to_train(options);
  const std::int64_t samples = options.data.samples_at_once();
  const std::optional<Arithmetic>& requested = options.device.precision;
  set_precision(options.device, requested ? *requested : automatic_precision(device->kind(), isas, network, samples),
                *device, isas, mpi);
  check_cpu_only_options(options, *device);
  const BuildSettings build{samples, options.device.arithmetic, Purpose::training, device->kind()};
  check_batch_fits(build_network(network, options.task.value, build), *device, mpi.local_size(),
                   batch_in_memory(options.data, *device));
  if (!options.data.eval_files.empty()) check_evaluation_fits(options, evaluation_size, *device, mpi.local_size());
  return device;
}

ExitCode train(const std::string& program, const ProgramSpec& program_spec, int argc, char** argv, const Mpi& mpi,
               const std::string& launcher, Trainer::Clock::time_point started) {
  TrainOptions options;
  PictureOptions pictures;
  OptionSet set = option_set(program, options, pictures, program_spec);
  if (!parse_on_all_ranks(set, argc, argv, mpi)) return ExitCode::done;
  mpi.run_on_all([&] { check_ranks(options.device, launcher); });
  options.checkpoint.begins_plan = begins_plan(set, options.checkpoint.train_dir);
  if (options.model.name == list_networks) {
    print_networks(set, program_spec, options, pictures, mpi);
    return ExitCode::done;
  }
  require_equal_on_all_ranks(mpi, {{"preflight", options.device.preflight}});
  mpi.run_on_all([&] {
    check_no_folders(options.data.files, training_splits);
    check_no_folders(options.data.eval_files, evaluation_splits);
  });
  const bool finds_data = !options.device.preflight || preflight_finds_data(set, options.data, mpi);
  mpi.run_on_all([&] { resolve(set, program_spec, finds_data, options, pictures, mpi); });

  const CpuShare cpu = take_cpu_share(mpi, static_cast<int>(options.device.threads));
  std::unique_ptr<Device> device;
  const std::vector<Isa> possible = possible_isas(options.device, mpi);
  const std::string evaluation_size = evaluation_size_text(pictures);
  mpi.run_on_all([&] { device = open_training_device(options, evaluation_size, possible, mpi, cpu); });
  resolve_summaries(set, *device, options.logging);
  warn_of_micro_batches(options.data, mpi, device->kind() == DeviceKind::cpu ? cpu.thread_count : 1);
  StallDetector stall_detector(mpi, stall_detector_settings(options.faults.stall_timeout, *device, mpi, program));
  finish_start();
  const std::unique_ptr<Communicator> communicator =
      make_communicator(mpi, *device, text_of(communicator_choices, options.device.comm), {.observer = &stall_detector},
                        averaging_of(tower_settings(options), mpi.size()));
  const std::string isas = isas_of_all(*device, options.device.arithmetic, mpi);
  // The update always computes in float32.
  const std::string isas_of_update = isas_of_all(*device, Arithmetic::fp32, mpi);
  mpi.run_on_all([&] { check_same_products(options.optimizer.update, isas_of_update); });
  if (options.device.preflight) {
    return run_preflight(program, options, cpu, mpi, *device, *communicator, stall_detector);
  }
  mpi.run_on_all([&] {
    check_shards(options.data, options.data.eval_files);
    if (!options.optimizer.trains()) return;
    if (!program_spec.of_pictures) check_default_data(set, options.data.files);
    check_shards(options.data, options.data.files);
    if (mpi.rank() == 0) warn_of_shared_files(options.data);
  });
  RunDescription description = describe(set, program_spec, options, pictures, mpi, isas);
  Trainer trainer(options, std::move(description), mpi, *device, *communicator, stall_detector, cpu, started);
  return abort_on_own_error(mpi, program, stall_detector, [&] { return trainer.run(); });
}

/// If --ranks requests several ranks, runs the program under mpirun and returns its exit code. Returns nullopt if this
/// process is a rank. Also returns nullopt if the process must print --help or report wrong options.
std::optional<int> run_own_ranks(const std::string& program, const ProgramSpec& program_spec, int argc, char** argv) {
  TrainOptions options;
  PictureOptions pictures;
  OptionSet set = option_set(program, options, pictures, program_spec);
  try {
    if (!set.parse(argc, argv)) return std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
  if (options.device.ranks < 2) return std::nullopt;
  return single_process_main(program, [&] {
    return run_ranks(program, static_cast<int>(options.device.ranks), words_of_ranks({argv + 1, argv + argc}));
  });
}

}  // namespace

OptionSet image_train_options(TrainOptions& options, PictureOptions& pictures) {
  return option_set("image_train", options, pictures, image_program());
}

int training_main(const std::string& program, const ProgramSpec& program_spec, int argc, char** argv) {
  bound_spinning();
  const auto started = Trainer::Clock::now();
  const auto manual = [&] {
    TrainOptions options;
    PictureOptions pictures;
    return option_set(program, options, pictures, program_spec).manual();
  };
  if (print_document(argc, argv, manual)) return 0;
  const std::string launcher = launcher_variable();
  if (launcher.empty()) {
    if (const std::optional<int> code = run_own_ranks(program, program_spec, argc, argv)) return *code;
  }
  catch_stop_signals();  // called before MPI_Init, which is slow: a stop signal that arrives during MPI_Init must not
                         // end the job, which may be a requeued job
  return mpi_main(program, argc, argv,
                  [&](const Mpi& mpi) { return train(program, program_spec, argc, argv, mpi, launcher, started); });
}

}  // namespace carillon
