#include "carillon/train/trainer.h"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "carillon/core/error.h"
#include "carillon/optim/moving_average.h"
#include "carillon/train/app.h"
#include "carillon/train/stop_signal.h"
#include "train_directory.h"

namespace carillon {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

void refuse_damaged_state(const CheckpointState& state) {
  for (const auto* arrays : {&state.variables, &state.moving_averages}) {
    for (const NamedArray& array : *arrays) {
      if (std::all_of(array.values.begin(), array.values.end(), [](float x) { return std::isfinite(x); })) continue;
      fail(ExitCode::failed, "Model diverged: '{}' is not finite after {} steps; no checkpoint was written", array.name,
           state.global_step);
    }
  }
}

/// The largest peak resident memory of any rank, in MiB.
std::int64_t peak_memory_mib(const Mpi& mpi) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::int64_t largest = 0;
  for (const std::string& text : mpi.all_gather(std::to_string(usage.ru_maxrss / 1024))) {
    largest = std::max<std::int64_t>(largest, std::stoll(text));
  }
  return largest;
}

}  // namespace

Trainer::Trainer(const TrainOptions& options, nlohmann::json option_values, const Mpi& mpi, Device& device,
                 Communicator& communicator, const CpuShare& cpu)
    : options_(options),
      option_values_(std::move(option_values)),
      model_(model_named(options.model)),
      mpi_(mpi),
      device_(device),
      communicator_(communicator),
      cpu_(cpu),
      schedule_(options.schedule()) {}

Trainer::~Trainer() = default;

ExitCode Trainer::run() {
  open_data();
  open_train_dir();
  tower_.emplace(model_,
                 Tower::Settings{options_.model_settings(), options_.batch_size,
                                 static_cast<std::size_t>(options_.bucket_kib) * 1024},
                 device_, communicator_);
  Position position = start_or_resume();
  if (options_.log_device_placement && is_first()) log_placement();
  announce(position);
  const bool initial_only = options_.max_steps == 0;
  if (!initial_only && position.step >= options_.max_steps) return ExitCode::done;
  const ExitCode code = initial_only ? ExitCode::done : train(position);
  start_checkpoint(position);
  if (!initial_only && code == ExitCode::done && !options_.eval_data.empty()) evaluate(position.step);
  finish(position, code == ExitCode::stopped);
  return code;
}

void Trainer::open_data() {
  const CacheMode cache = cache_mode(options_.cache);
  const RecordSchema schema = schema_for(model_, options_.image_key, options_.label_key);
  nlohmann::json compared = option_values_;
  mpi_.together([&] {
    if (options_.max_steps > 0) dataset_ = Dataset::open(options_.data, schema, cache, mpi_.local_size());
    if (!options_.eval_data.empty()) {
      eval_dataset_ = Dataset::open(options_.eval_data, schema, cache, mpi_.local_size());
    }
  });
  if (dataset_) {
    compared["training records"] = dataset_->size();
    compared["training record checksums"] = dataset_->fingerprint();
  }
  if (eval_dataset_) compared["evaluation record checksums"] = eval_dataset_->fingerprint();
  agree(mpi_, compared, {"threads"});
}

void Trainer::open_train_dir() {
  mpi_.together([&] {
    if (!is_first()) return;
    lock_.emplace(options_.train_dir);
    remove_stale_temporaries(options_.train_dir);
    if (options_.fresh) remove_run_files(options_.train_dir);
    writer_.emplace(options_.train_dir, static_cast<int>(options_.keep_checkpoints));
  });
}

std::optional<LoadedCheckpoint> Trainer::checkpoint_to_resume() {
  const std::filesystem::path directory = options_.train_dir;
  if (options_.resume == "never") {
    const std::vector<std::int64_t> steps = list_checkpoints(directory);
    if (steps.empty()) return std::nullopt;
    fail(ExitCode::usage, "--resume never: {} is there already; --fresh would remove it",
         checkpoint_path(directory, steps.front()).string());
  }
  auto loaded =
      read_newest_checkpoint(directory, [](const std::string& line) { fmt::print(stderr, "warning: {}\n", line); });
  if (!loaded && options_.resume == "require") {
    fail(ExitCode::no_input, "--resume require: no checkpoint in {}", directory.string());
  }
  if (loaded && loaded->state.model != options_.model) {
    fail(ExitCode::data, "{} is of model '{}', this program trains '{}'", loaded->path.string(), loaded->state.model,
         options_.model);
  }
  return loaded;
}

void Trainer::load_initial_variables() {
  if (options_.init_from.empty()) return tower_->initialize(options_.seed);
  const CheckpointState state = read_checkpoint(options_.init_from);
  if (state.model != options_.model) {
    fail(ExitCode::data, "--init-from {}: of model '{}', this program trains '{}'", options_.init_from, state.model,
         options_.model);
  }
  tower_->load(state, true);
}

Trainer::Position Trainer::start_or_resume() {
  Position position;
  mpi_.together([&] {
    if (!is_first()) return;
    const std::optional<LoadedCheckpoint> loaded = checkpoint_to_resume();
    if (loaded) {
      tower_->load(loaded->state, false);
      position = {loaded->state.global_step, loaded->state.stream_position};
    } else {
      load_initial_variables();
    }
    log_.emplace(options_.train_dir, position.step, std::max(options_.max_steps, position.step + 1));
    if (loaded) note_resume(*loaded);
  });
  mpi_.broadcast(std::as_writable_bytes(std::span(&position, 1)), 0);
  tower_->broadcast_from_first();
  return position;
}

void Trainer::note_resume(const LoadedCheckpoint& loaded) {
  Console& console = log_->console();
  console.print(fmt::format("resuming from {} at step {}", loaded.path.string(), loaded.state.global_step));
  for (const std::string& difference : differences_that_matter(loaded.state, option_values_, mpi_.size())) {
    console.warn(difference);
  }
}

void Trainer::announce(const Position& start) {
  if (!is_first()) return;
  std::int64_t parameters = 0;
  for (const ParameterSpec& spec : tower_->graph().parameters()) parameters += spec.shape.element_count();
  std::string line = fmt::format("{}: {} parameters; {} tower{} on {}, {} thread{} each, communicator {}", model_.name,
                                 parameters, mpi_.size(), mpi_.size() == 1 ? "" : "s", device_.name(),
                                 cpu_.thread_count, cpu_.thread_count == 1 ? "" : "s", communicator_.name());
  if (dataset_) {
    line += fmt::format("; {} records {}, global batch {}", dataset_->size(),
                        dataset_->in_memory() ? "in memory" : "read ahead", global_batch());
  }
  log_->console().print(line);
  log_->graph(tower_->graph(), device_.name());
  if (options_.max_steps > 0 && start.step >= options_.max_steps) {
    log_->console().print(fmt::format("nothing to do: step {} of {} is reached (raise --max-steps, or --fresh)",
                                      start.step, options_.max_steps));
  }
}

void Trainer::log_placement() {
  for (const Graph::Node& node : tower_->graph().nodes()) {
    log_->console().print(fmt::format("{}: ({}): /job:worker/replica:0/task:0/device:{}", node.name,
                                      node.definition->type(), device_.name()));
  }
  log_->console().print(fmt::format("activations and their gradients: {} bytes", tower_->activation_bytes()));
}

ExitCode Trainer::train(Position& position) {
  catch_stop_signals();
  BatchLoader loader(*dataset_, SampleOrder(dataset_->size(), options_.seed, options_.shuffle),
                     StreamSlice{.start = position.stream_position,
                                 .global_batch = global_batch(),
                                 .tower_offset = static_cast<std::uint64_t>(options_.batch_size) * mpi_.rank(),
                                 .batch_size = static_cast<std::size_t>(options_.batch_size)});
  totals_ = {.since = Clock::now()};
  // Resuming dropped what was logged from this step on; the evaluation that belongs here is had again.
  if (position.step > 0 && due(position.step, options_.eval_every)) evaluate(position.step);
  while (position.step < options_.max_steps) {
    const std::int64_t step = position.step;
    const bool logs = due(step, options_.log_every) || (step > 0 && due(step, options_.summary_every));
    const double l2_loss = logs ? tower_->l2_loss() : 0.0;  // of the variables that the step's loss is computed from
    const StepResult result = take_step(loader, step);
    const float loss = static_cast<float>(result.cross_entropy + l2_loss);
    if (!std::isfinite(loss)) {  // on all ranks alike
      fail_on_all(mpi_, ExitCode::failed,
                  fmt::format("Model diverged with loss = {} at step {}", std::isnan(loss) ? "NaN" : "Inf", step));
    }
    position.step += 1;
    position.stream_position += global_batch();
    if (logs && is_first()) log_step(step, result.cross_entropy, l2_loss);
    if (is_first()) log_->console().progress(position.step, result.cross_entropy);
    if (result.stop_requested) return ExitCode::stopped;
    if (position.step == options_.max_steps) break;
    if (due(position.step, options_.checkpoint_every)) start_checkpoint(position);
    if (due(position.step, options_.eval_every)) evaluate(position.step);
  }
  return ExitCode::done;
}

StepResult Trainer::take_step(BatchLoader& loader, std::int64_t step) {
  const auto start = Clock::now();
  const Batch& batch = loader.next();
  totals_.data_wait_seconds += seconds_since(start);
  const UpdateStep update{schedule_.rate(step), moving_average_decay(options_.moving_average_decay, step + 1)};
  const bool summarises = is_first() && step > 0 && due(step, options_.summary_every);
  const std::function<void()> observer =
      summarises ? [&] { log_->histograms(step, tower_->parameters()); } : std::function<void()>();
  const StepResult result = tower_->step(batch, update, stop_signal_caught(), observer);
  totals_.allreduce_seconds += result.reduce_seconds;
  totals_.steps += 1;
  return result;
}

void Trainer::log_step(std::int64_t step, double cross_entropy, double l2_loss) {
  const double steps = static_cast<double>(totals_.steps);
  const StepRecord record{.step = step,
                          .loss = cross_entropy + l2_loss,
                          .cross_entropy = cross_entropy,
                          .learning_rate = schedule_.rate(step),
                          .step_seconds = seconds_since(totals_.since) / steps,
                          .data_wait_seconds = totals_.data_wait_seconds / steps,
                          .allreduce_seconds = totals_.allreduce_seconds / steps,
                          .global_batch = static_cast<std::int64_t>(global_batch()),
                          .tower_count = mpi_.size()};
  if (step > 0 && due(step, options_.summary_every)) log_->scalars(record);
  if (!due(step, options_.log_every)) return;
  log_->step(record);
  totals_ = {.since = Clock::now()};
}

void Trainer::start_checkpoint(const Position& position) {
  if (!is_first()) return;
  CheckpointState state{.model = std::string(model_.name),
                        .global_step = position.step,
                        .seed = options_.seed,
                        .stream_position = position.stream_position,
                        .options_json = option_values_.dump(),
                        .variables = {},
                        .moving_averages = {},
                        .optimizer = {}};
  tower_->save(state);
  refuse_damaged_state(state);
  writer_->start(std::move(state));
}

void Trainer::evaluate(std::int64_t step) {
  const auto start = Clock::now();
  if (!evaluator_) {
    ModelSettings settings = options_.model_settings();
    settings.distort = false;
    evaluator_.emplace(model_, settings, std::min<std::int64_t>(options_.batch_size, 500), device_);
  }
  evaluator_->load_averages(tower_->parameters());
  const Precision precision = evaluator_->evaluate(*eval_dataset_, mpi_);
  if (is_first()) log_->evaluation(step, precision);
  totals_.since += Clock::now() - start;  // the time of steps goes on where it was
}

void Trainer::finish(const Position& position, bool stopped) {
  mpi_.together([&] {
    if (is_first()) writer_->wait();
  });
  const std::int64_t memory = peak_memory_mib(mpi_);
  if (!is_first()) return;
  Console& console = log_->console();
  console.print(fmt::format("wrote {}; peak memory of a rank {} MiB",
                            checkpoint_path(options_.train_dir, position.step).string(), memory));
  if (stopped) console.print(fmt::format("stopped by a signal at step {}: start again to go on", position.step));
}

}  // namespace carillon
