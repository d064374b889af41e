#include <algorithm>

#include "carillon/app/mains.h"
#include "src/app/global_batch.h"
#include "src/app/mpi_main.h"
#include "src/app/optimizer_options.h"
#include "src/app/options.h"
#include "src/app/picture_options.h"
#include "src/app/startup.h"
#include "src/app/version_text.h"
#include "src/comm/stall/stall_detector.h"
#include "src/step/gradients/reducer.h"
#include "src/train/control/equal_on_all_ranks.h"
#include "src/train/control/stop_signal.h"
#include "src/train/input/batch_memory.h"
#include "src/train/loop/trainer.h"
#include "src/train/preflight/preflight.h"

namespace carillon {
namespace {

/// In place of a network's name.
constexpr std::string_view list_networks = "help";

/// The program's options, on `options` with the program spec's values and on `pictures`.
OptionSet option_set(const std::string& program, TrainOptions& options, PictureOptions& pictures,
                     const ProgramSpec& program_spec) {
  options = program_spec.defaults;
  options.model = program_spec.networks.front().name;
  OptionSet set({.program = program,
                 .purpose = fmt::format("Trains a network on {}, one tower per rank", program_spec.data_set),
                 .synopses = {fmt::format("mpirun -np N {} --data FILES --train-dir DIR", program)}});
  declare(set, options);
  set.begin_group("Training");
  std::vector<std::string> names = network_names(program_spec);
  names.emplace_back(list_networks);
  set.add("model", options.model, names, "network to train; help lists them with their sizes");
  set.begin_group("Data");
  if (program_spec.of_pictures) declare(set, pictures);
  if (program_spec.distorts) {
    set.add("distort", options.distort, "distort the training images at random", Scope::result);
    set.add("test-time-augmentation", options.test_time_augmentation, test_time_augmentation_help);
  } else {
    set.add("pixel-scale", options.pixel_scale, OptionSet::Interval::positive, "multiplies the pixels 0..255",
            Scope::result);
  }
  introduce(set, program);
  return set;
}

/// Errors: usage.
void check_augmentation(const OptionSet& set, const TrainOptions& options) {
  if (!options.test_time_augmentation || !options.eval_data.empty()) return;
  // A recipe may say it for those who evaluate.
  if (set.given_by("test-time-augmentation") != OptionSet::GivenBy::command_line) return;
  fail(ExitCode::usage, "--test-time-augmentation needs --eval-data");
}

/// Each tower orthogonalises muon's matrices for itself, and replicas are to stay equal. Errors: usage.
void check_same_products(const TrainOptions& options, const std::string& isas) {
  if (!options.optimizer_settings.rule.starts_with("muon") || isas.find(", ") == std::string::npos) return;
  fail(ExitCode::usage, "--optimizer {}: the ranks' matrix products would round differently, by {}: give all one --isa",
       options.optimizer_settings.rule, isas);
}

RunDescription describe(const OptionSet& set, const ProgramSpec& program_spec, const TrainOptions& options,
                        const PictureOptions& pictures, const Mpi& mpi, const std::string& isas) {
  RunDescription description = set.values();
  if (program_spec.of_pictures) describe_pictures(pictures, options, description);
  // Where there is one network only, checkpoints have never held it as an option. All hold the model's name besides.
  if (program_spec.networks.size() == 1) description.remove("model");
  if (options.global_batch > 0) description.remove("batch_size");  // it is each rank's part of that
  if (!has_bits_of_any_rank_count(options, mpi)) description.add("tower count", mpi.size(), Scope::result);
  if (!isas.empty()) description.add("instruction set", isas, Scope::result);
  return description;
}

/// A step with a summary waits for a GPU and is launched kernel by kernel: where nobody has asked for more, few are.
void resolve_summaries(const OptionSet& set, const Device& device, TrainOptions& options) {
  constexpr std::int64_t on_gpus = 100;
  if (device.kind() != DeviceKind::cuda || set.given("summary-every") || options.summary_every == 0) return;
  options.summary_every = std::max(options.summary_every, on_gpus);
}

/// --preflight.
ExitCode look_ahead(const std::string& program, const TrainOptions& options, const CpuShare& cpu, const Mpi& mpi,
                    Device& device, Communicator& communicator) {
  const Network network = options.network();
  const BuiltNetwork built = build_network(network, {1, Arithmetic::fp32, Purpose::training});
  const std::string instructions = isa_text(device);
  const std::int64_t divisor = averaging_of(options.tower(), mpi.size()).divisor;
  const PreflightSubject subject{.version = version_text(program),
                                 .instructions = instructions,
                                 .network = network.name,
                                 .gradients = static_cast<std::size_t>(parameter_count(built.graph)),
                                 .bucket_bytes = bucket_bytes_on(device.kind(), options.tower().bucket_bytes),
                                 .divisor = divisor > 0 ? divisor : mpi.size()};
  return abort_on_own_error(mpi, program, [&] {
    preflight(subject, options, cpu, mpi, device, communicator);
    return ExitCode::done;
  });
}

ExitCode train(const std::string& program, const ProgramSpec& program_spec, int argc, char** argv, const Mpi& mpi,
               Trainer::Clock::time_point started) {
  TrainOptions options;
  PictureOptions pictures;
  OptionSet set = option_set(program, options, pictures, program_spec);
  if (!parse_on_all_ranks(set, argc, argv, mpi)) return ExitCode::done;
  if (options.model == list_networks) {
    const RecordSchema& schema = options.record_form.schema;
    const ImageShape image = program_spec.of_pictures ? shape_of(pictures) : schema.image_shape;
    const std::int64_t classes = pictures.classes > 0 ? pictures.classes : schema.class_count;
    if (mpi.rank() == 0) print_text(STDOUT_FILENO, network_list(program_spec, image, classes));
    return ExitCode::done;
  }
  require_equal_on_all_ranks(mpi, {{"preflight", options.preflight}});
  options.make_network = network_named(program_spec, options.model);
  mpi.run_on_all([&] {
    check_combinations(set, options);
    check_augmentation(set, options);
    if (program_spec.of_pictures) {
      check_default_data(set, options.data);
      resolve_pictures(pictures, options);
    }
    resolve_batch(options, program_spec, mpi.size());
    const Network network = options.network();  // the images that it takes
    check_variables(options.optimizer(),
                    build_network(network, {1, Arithmetic::fp32, Purpose::training}).graph.parameters());
  });
  resolve_ends(options);

  const CpuShare cpu = take_cpu_share(mpi, static_cast<int>(options.threads));
  std::unique_ptr<Device> device;
  mpi.run_on_all([&] {
    device = open_own_device(options.device, options.precision, options.cpu, mpi, cpu);
    check_takes_batches(options, *device);
    check_batch_fits(options.network(), {options.samples_at_once(), options.precision, Purpose::training}, *device, mpi,
                     batch_in_memory(options, *device));
  });
  resolve_summaries(set, *device, options);
  warn_of_micro_batches(options, mpi, cpu.thread_count);
  StallDetector stall_detector(mpi, stall_detector_settings(options.stall_timeout, *device, mpi, program));
  const std::unique_ptr<Communicator> communicator =
      make_communicator(mpi, *device, text_of(communicator_choices, options.comm), {.observer = &stall_detector},
                        averaging_of(options.tower(), mpi.size()));
  const std::string isas = isas_of_all(*device, mpi);
  mpi.run_on_all([&] { check_same_products(options, isas); });
  if (options.preflight) return look_ahead(program, options, cpu, mpi, *device, *communicator);
  mpi.run_on_all([&] {
    if (!program_spec.of_pictures && options.max_steps > 0) check_default_data(set, options.data);
  });
  RunDescription description = describe(set, program_spec, options, pictures, mpi, isas);
  Trainer trainer(options, std::move(description), mpi, *device, *communicator, stall_detector, cpu, started);
  return abort_on_own_error(mpi, program, [&] { return trainer.run(); });
}

}  // namespace

int training_main(const std::string& program, const ProgramSpec& program_spec, int argc, char** argv) {
  const auto started = Trainer::Clock::now();
  const auto manual = [&] {
    TrainOptions options;
    PictureOptions pictures;
    return option_set(program, options, pictures, program_spec).manual();
  };
  if (print_document(argc, argv, manual)) return 0;
  catch_stop_signals();  // before MPI's start, which takes a while: a signal then ends no job that would be put back
  return mpi_main(program, argc, argv,
                  [&](const Mpi& mpi) { return train(program, program_spec, argc, argv, mpi, started); });
}

}  // namespace carillon
