#include "carillon/run/trainer.h"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>

#include "carillon/app/app.h"
#include "carillon/core/error.h"
#include "carillon/optim/moving_average.h"
#include "carillon/run/stop_signal.h"

namespace carillon {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t evaluation_batch = 200;

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
                 Tower::Settings{.model = options_.model_settings(),
                                 .batch_size = options_.batch_size,
                                 .bucket_bytes = static_cast<std::size_t>(options_.bucket_kib) * 1024,
                                 .dataset = dataset_ ? &*dataset_ : nullptr,
                                 .capture = options_.cuda_graph},
                 device_, communicator_);
  Position position = start_or_resume();
  if (position.resumed && position.step >= options_.max_steps) {
    say_nothing_to_do(position);
    return ExitCode::done;
  }
  open_logs(position);
  announce();
  if (options_.max_steps == 0) {
    start_checkpoint(position);
    finish(position, false);
    return ExitCode::done;
  }
  const ExitCode code = train(position);
  start_checkpoint(position);
  if (code == ExitCode::done && eval_dataset_) evaluate(position.step);
  finish(position, code == ExitCode::stopped);
  return code;
}

ExitCode Trainer::train(Position& position) {
  BatchLoader loader(*dataset_, SampleOrder(dataset_->size(), options_.seed, options_.shuffle),
                     StreamSlice{.start = position.stream_position,
                                 .global_batch = global_batch(),
                                 .tower_offset = static_cast<std::uint64_t>(options_.batch_size) * mpi_.rank(),
                                 .batch_size = static_cast<std::size_t>(options_.batch_size)});
  totals_ = {.since = Clock::now()};
  // Resuming dropped what was logged from this step on; the evaluation that belongs here is had again.
  if (position.resumed && eval_dataset_) evaluate(position.step);
  while (position.step < options_.max_steps) {
    const std::int64_t step = position.step;
    const bool logs = due(step, options_.log_every) || (step > 0 && due(step, options_.summary_every));
    const double l2_loss = logs ? tower_->l2_loss() : 0.0;  // of the variables that the step's loss is computed from
    take_step(loader, step);
    position.step += 1;
    position.stream_position += global_batch();
    const bool last = position.step == options_.max_steps;
    const bool saves = due(position.step, options_.checkpoint_every),
               evaluates = due(position.step, options_.eval_every);
    take_results(logs || last || saves || evaluates);
    if (logs) refuse_diverged(step, latest_.cross_entropy + l2_loss);
    if (logs && is_first()) log_step(step, latest_.cross_entropy, l2_loss);
    if (is_first()) log_->console().progress(latest_.step + 1, latest_.cross_entropy);
    if (last) break;
    if (stop_requested_) {
      take_results(true);
      return ExitCode::stopped;
    }
    if (saves) start_checkpoint(position);
    if (evaluates) evaluate(position.step);
  }
  return ExitCode::done;
}

void Trainer::take_step(BatchLoader& loader, std::int64_t step) {
  const auto start = Clock::now();
  const Batch& batch = loader.next();
  totals_.data_wait_seconds += seconds_since(start);
  StepRequest request{.step = step,
                      .batch = batch,
                      .update = {schedule_.rate(step), moving_average_decay(options_.moving_average_decay, step + 1)},
                      .request_stop = stop_signal_caught(),
                      .before_update = {}};
  if (step > 0 && due(step, options_.summary_every)) {  // on all ranks: an observed step is launched in another way
    request.before_update = [this, step, &batch] {
      if (is_first()) summarize(step, batch);
    };
  }
  tower_->step(request);
  totals_.steps += 1;
}

/// While variables are old and gradients new, on rank 0.
void Trainer::summarize(std::int64_t step, const Batch& batch) {
  log_->variables(step, tower_->parameters(), device_);
  if (model_.summary_style != SummaryStyle::layers) return;
  if (!summarizer_) {
    summarizer_.emplace(model_, options_.model_settings(), options_.batch_size, tower_->parameters(), device_);
  }
  log_->layers(step, summarizer_->summarize(batch));
}

/// Of the steps under way: all, or those whose turn it is.
void Trainer::take_results(bool all) {
  while (const std::optional<StepResult> result = tower_->take_result(all)) {
    refuse_diverged(result->step, result->cross_entropy);
    totals_.allreduce_seconds += result->reduce_seconds;
    stop_requested_ = stop_requested_ || result->stop_requested;
    latest_ = *result;
  }
}

/// Throws failed, on all ranks alike, when the loss of `step` is not finite.
void Trainer::refuse_diverged(std::int64_t step, double loss) const {
  const float shown = static_cast<float>(loss);
  if (std::isfinite(shown)) return;
  fail_on_all(mpi_, ExitCode::failed,
              fmt::format("Model diverged with loss = {} at step {}", std::isnan(shown) ? "NaN" : "Inf", step));
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
    evaluator_.emplace(model_, settings, evaluation_batch, device_);
  }
  evaluator_->load_averages(tower_->parameters());
  const Precision precision = evaluator_->evaluate(*eval_dataset_, mpi_);
  if (is_first()) log_->evaluation(step, precision);
  totals_.since += Clock::now() - start;  // the time of steps goes on where it was
}

void Trainer::finish(const Position& position, bool stopped) {
  mpi_.run_on_all([&] {
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
