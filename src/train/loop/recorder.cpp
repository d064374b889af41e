#include "src/train/loop/recorder.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "carillon/core/error.h"
#include "src/checkpoint/directory_lock.h"
#include "src/cli/options/option_groups.h"
#include "src/core/printable.h"
#include "src/report/metrics.h"
#include "src/report/run_log.h"
#include "src/report/run_summary.h"
#include "src/train/checkpointing/best_checkpoint.h"
#include "src/train/checkpointing/run_checkpoints.h"
#include "src/train/checkpointing/train_directory.h"
#include "src/train/evaluation/task_score.h"
#include "src/train/input/open_records.h"
#include "src/train/loop/announcement.h"
#include "src/train/loop/duration_notice.h"
#include "src/train/loop/phase_times.h"
#include "src/train/loop/rank_times.h"
#include "src/train/loop/shared_histograms.h"
#include "src/train/loop/step_clock.h"

namespace carillon {
namespace {

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

/// The norm of the gradients of the variables that `step` trains. None if one is not finite.
std::optional<double> gradient_norm(const ParameterHistograms& histograms, const Tower& tower, std::int64_t step) {
  double squares = 0.0;
  for (std::size_t i = 0; i < histograms.gradients.size(); ++i) {
    const Histogram& gradient = histograms.gradients[i];
    if (!tower.trains(static_cast<int>(i), step)) continue;
    if (gradient.count != static_cast<double>(tower.parameters().layout().count(static_cast<int>(i)))) {
      return std::nullopt;  // a histogram counts finite values only
    }
    squares += gradient.sum_squares;
  }
  return std::sqrt(squares);
}

}  // namespace

struct Recorder::First {
  const TrainOptions& options;
  std::string loss_name;
  TaskScore task_score;
  const RunDescription& description;
  int tower_count;
  Stragglers stragglers;
  PhaseTimes phases;
  std::optional<DirectoryLock> lock{};  // destroyed after all that writes to the directory
  std::optional<RunLog> log{};
  std::optional<RunCheckpoints> checkpoints{};
  std::optional<StepClock::Clock::time_point> stop_at = stop_time(options.checkpoint);
  std::optional<LayerSummarizer> summarizer{};
  bool shows_captured = true;  ///< until the captured step is printed
  bool time_was_up = false;    ///< --time-limit has ended the run
  StepClock clock{};
  DurationNotice duration_notice{options.logging.faster_choice};
  std::optional<double> l2_loss{};          ///< L2 loss of the last logged step
  std::optional<double> summarized_norm{};  ///< norm of the gradient that was summarized, until its step is logged
  bool same_evaluation{};                   ///< the resumed run was evaluated on the same records
  std::int64_t first_step = 0;
  std::optional<StepScore> best{};

  std::int64_t global_batch() const { return options.data.batch_size * tower_count; }
  bool is_time_up(Clock::time_point now) const { return stop_at && now >= *stop_at; }
  void warn(const std::string& line) { log ? log->console().warn(line) : print_warning(line); }
  RunSummary summary(std::int64_t last_step, std::vector<double> rank_work) const {
    return {.first_step = first_step,
            .last_step = last_step,
            .global_batch = global_batch(),
            .best = best,
            .seconds = phases.seconds(),
            .rank_work = std::move(rank_work)};
  }
};

Recorder::Recorder(const TrainOptions& options, const Task& task, const RunDescription& description, const Mpi& mpi,
                   Clock::time_point started)
    : mpi_(mpi) {
  Stragglers stragglers(mpi.all_gather(mpi.host()));
  if (mpi.rank() != 0) return;
  first_.reset(new First{options, task.loss_name, TaskScore(task, options.task.target_score()), description, mpi.size(),
                         std::move(stragglers), PhaseTimes(started)});
}

Recorder::~Recorder() = default;

void Recorder::open_directory() {
  mpi_.run_on_all([&] {
    if (!first_) return;
    const TrainOptions& options = first_->options;
    first_->lock.emplace(options.checkpoint.train_dir, print_warning);
    remove_stale_temporaries(options.checkpoint.train_dir);
    first_->checkpoints.emplace(options.checkpoint, options.model, first_->task_score, first_->description,
                                [this](const std::string& line) { first_->warn(line); });
  });
}

void Recorder::require_same_task(const LoadedCheckpoint& checkpoint) const {
  const nlohmann::json before = nlohmann::json::parse(checkpoint.state.options_json, nullptr, false);
  const nlohmann::json now = nlohmann::json::parse(first_->description.json(), nullptr, false);
  if (!before.is_object() || !before.contains("task") || before["task"] == now.value("task", nlohmann::json())) return;
  fail(ExitCode::usage, "{} has the task {}, and this run has {}: choose another --train-dir, or set --fresh",
       checkpoint.path.string(), printable(before["task"].dump()), now.value("task", nlohmann::json()).dump());
}

void Recorder::resumed(const LoadedCheckpoint& checkpoint) {
  if (!first_) return;
  print_text(
      STDOUT_FILENO,
      fmt::format("resuming from {} at step {}{}\n", printable(checkpoint.path.string()), checkpoint.state.global_step,
                  first_->options.checkpoint.init_from.empty() ? "" : "; --init-from is not used"));
  for (const std::string& change : first_->description.changes_since(checkpoint.state.options_json)) {
    print_warning(change);
  }
  first_->same_evaluation = same_evaluation(checkpoint.state.options_json, first_->description);
}

void Recorder::initialized(const LoadedCheckpoint& initial, const std::vector<std::string>& excluded) {
  if (!first_) return;
  print_text(STDOUT_FILENO, initialized_line(initial, excluded) + "\n");
  const std::string warning = preprocessing_warning(initial, first_->description);
  if (!warning.empty()) print_warning(warning);
}

bool Recorder::first_finds(const std::function<bool()>& condition) const {
  std::uint8_t found = 0;
  mpi_.run_on_all([&] { found = first_ && condition() ? 1 : 0; });
  mpi_.broadcast(std::as_writable_bytes(std::span(&found, 1)), 0);
  return found != 0;
}

bool Recorder::lacks_evaluation(std::int64_t step, const Tower& tower) {
  return first_finds([&] {
    const std::optional<Score> logged =
        logged_score(first_->options.checkpoint.train_dir, step, first_->task_score.form());
    return !logged || !first_->checkpoints->has_kept(*logged, tower);
  });
}

bool Recorder::reached_before(std::int64_t step, const Tower& tower) {
  return first_finds([&] {
    const std::optional<Score> logged =
        logged_score(first_->options.checkpoint.train_dir, step, first_->task_score.form());
    return first_->same_evaluation && logged && first_->task_score.reaches_target(*logged) &&
           first_->checkpoints->has_kept(*logged, tower);
  });
}

std::vector<StepScore> Recorder::evaluations_up_to(std::int64_t last_step) const {
  std::vector<StepScore> found;
  std::vector<double> sent;  // step and value of each: a step is below 2^53
  mpi_.run_on_all([&] {
    if (!first_ || !first_->same_evaluation) return;
    found = logged_scores(first_->options.checkpoint.train_dir, last_step, first_->task_score.form());
    for (const auto& [step, score] : found) sent.insert(sent.end(), {static_cast<double>(step), score.value});
  });
  const std::string bytes =
      mpi_.all_gather({reinterpret_cast<const char*>(sent.data()), sent.size() * sizeof(double)}).front();
  if (first_) return found;
  sent.resize(bytes.size() / sizeof(double));
  if (!sent.empty()) std::memcpy(sent.data(), bytes.data(), bytes.size());
  for (std::size_t i = 0; i < sent.size(); i += 2) {
    found.push_back({static_cast<std::int64_t>(sent[i]), {.name = {}, .value = sent[i + 1]}});
  }
  return found;
}

void Recorder::finished_before(std::int64_t step, EndCause end) {
  if (!first_) return;
  print_text(STDOUT_FILENO, nothing_to_do_line(first_->options, step, end) + "\n");
}

void Recorder::open_logs(std::int64_t first_step) {
  mpi_.run_on_all([&] {
    if (!first_) return;
    const TrainOptions& options = first_->options;
    first_->first_step = first_step;
    if (options.checkpoint.fresh) remove_run_files(options.checkpoint.train_dir);
    first_->log.emplace(options.checkpoint.train_dir,
                        RunLogSettings{.style = options.logging.summary_style,
                                       .loss_name = first_->loss_name,
                                       .prints_gradient_norm = options.optimizer.update.clip_norm > 0.0,
                                       .first_step = first_step,
                                       .last_step = std::max(options.optimizer.max_steps, first_step + 1)});
    if (is_synthetic(options.data.files)) first_->log->console().set_note(synthetic_note);
  });
}

void Recorder::check_bounds(const RunPosition& start, const Tower& tower) {
  mpi_.run_on_all([&] {
    if (!first_) return;
    first_->checkpoints->check_bounds(start, first_->options.optimizer.max_steps, first_->global_batch(), tower);
  });
}

void Recorder::check_space(std::int64_t first_step, const Tower& tower) {
  mpi_.run_on_all([&] {
    if (!first_) return;
    const TrainOptions& options = first_->options;
    first_->checkpoints->check_space(options.optimizer.max_steps - first_step, !options.data.eval_files.empty(), tower);
  });
}

void Recorder::announce(const Parts& parts) {
  if (!first_) return;
  Console& console = first_->log->console();
  if (first_->options.device.log_device_placement) print_placement(parts.tower, parts.device.name(), console);
  const TrainOptions& options = first_->options;
  console.print(description_line(parts, options, first_->tower_count));
  if (first_->is_time_up(Clock::now())) {
    console.warn(
        fmt::format("--time-limit {}: less than --time-margin {} s is left, so the run stops after its first step",
                    options.checkpoint.time_limit, options.checkpoint.time_margin));
  }
  const TaskOptions& task = options.task;
  if (task.label_smoothing > 0.0 && !task.weighs_classes() && task.focal_gamma == 0.0) {
    console.print(label_smoothing_line(task.label_smoothing, options.data.record_form.schema.class_count));
  }
  first_->log->graph(parts.tower.graph(), parts.device.name(), options.optimizer.update.rule, first_->tower_count);
  if (options.logging.summary_every == 0) return;
  std::vector<Field> settings = first_->description.fields();
  for (Field& setting : settings) setting.name = shown_name(setting.name);
  first_->log->settings(first_->first_step, settings);
}

void Recorder::enter(Phase phase, Clock::time_point now) {
  if (first_) first_->phases.enter(phase, now);
}

void Recorder::start_clock() {
  if (!first_) return;
  first_->clock.start();
  first_->checkpoints->start_clock();
}

void Recorder::count_step(double data_wait_seconds) {
  if (first_) first_->clock.take_step(data_wait_seconds);
}

void Recorder::count_result(const StepResult& result) {
  if (!first_) return;
  first_->clock.end_step(result.reduce_seconds, result.finished);
  const std::int64_t left = first_->options.optimizer.max_steps - result.step - 1;
  const std::optional<std::string> notice = first_->duration_notice.end_step(result.finished, left);
  if (notice) first_->log->console().print(*notice);
}

void Recorder::summarize(std::int64_t step, const Batch& batch, const Tower& tower, Device& device) {
  const std::optional<ParameterHistograms> histograms = shared_histograms(tower.parameters(), device, mpi_);
  if (!first_) return;
  first_->log->parameters(step, tower.parameters().specs(), *histograms);
  first_->summarized_norm = gradient_norm(*histograms, tower, step);
  const TrainOptions& options = first_->options;
  if (options.logging.summary_style != SummaryStyle::layers) return;
  if (!first_->summarizer) {
    first_->summarizer.emplace(
        tower.network(), BuildSettings{options.data.samples_at_once(), options.device.arithmetic, Purpose::summary},
        tower.parameters(), tower.buffers(), device);
  }
  first_->log->layers(
      step, first_->summarizer->summarize(batch.part(0, static_cast<std::size_t>(options.data.samples_at_once()))));
}

void Recorder::log_step(const StepPlan& plan, const StepLoss& loss, double learning_rate,
                        std::vector<double> rank_seconds) {
  if (!first_) return;
  first_->l2_loss = loss.l2;
  const StepClock::Means seconds = first_->clock.means();
  const auto ago =
      std::chrono::duration_cast<std::chrono::system_clock::duration>(StepClock::Clock::now() - first_->clock.end());
  const std::optional<double> summarized = std::exchange(first_->summarized_norm, std::nullopt);
  const StepRecord record{.step = plan.step,
                          .finished = std::chrono::system_clock::now() - ago,
                          .loss = loss.total(),
                          .task_loss = loss.task,
                          .learning_rate = learning_rate,
                          .gradient_norm = loss.gradient_norm ? loss.gradient_norm : summarized,
                          .step_seconds = seconds.step,
                          .data_wait_seconds = seconds.data_wait,
                          .allreduce_seconds = seconds.allreduce,
                          .rank_seconds = std::move(rank_seconds),
                          .global_batch = first_->global_batch(),
                          .tower_count = first_->tower_count};
  if (plan.summarizes) first_->log->scalars(record);
  if (!plan.logs) return;
  const std::optional<std::string> slow = first_->stragglers.add(record.rank_seconds, first_->clock.seconds());
  if (slow) first_->log->console().warn(*slow);
  first_->log->step(record);
  first_->clock.restart();
}

void Recorder::show_captured(const std::vector<std::string>& nodes) {
  if (!first_ || nodes.empty() || !first_->options.device.log_device_placement) return;
  if (!std::exchange(first_->shows_captured, false)) return;
  print_captured_step(nodes, first_->log->console());
}

void Recorder::show_progress(const StepResult& latest) {
  if (!first_) return;
  // The L2 part is computed for logged steps only. It changes slowly, so the last one is close enough between them.
  const std::optional<double> l2 = first_->l2_loss;
  first_->log->console().progress(latest.step + 1, l2 ? std::optional(latest.loss + *l2) : std::nullopt);
}

void Recorder::log_evaluation(std::int64_t step, const Metric& metric, Clock::duration spent) {
  if (!first_) return;
  first_->log->evaluation(step, metric);
  const Score score = first_->task_score.of(metric);
  if (!first_->best || first_->task_score.is_better(score, first_->best->score)) first_->best = {step, score};
  first_->clock.exclude(spent);
  first_->duration_notice.exclude(spent);
}

void Recorder::reached(std::int64_t step, const Metric& metric) {
  if (!first_) return;
  first_->log->console().print(target_line(step, first_->task_score.of(metric), first_->options.task.stop_at_accuracy,
                                           first_->phases.seconds()));
}

void Recorder::lost_patience(std::int64_t step, const std::optional<StepScore>& best) {
  if (first_) first_->log->console().print(patience_line(step, first_->options.task.patience, best));
}

void Recorder::save(const RunPosition& position, const Tower& tower) {
  if (first_) first_->checkpoints->save(position, tower);
}

std::int64_t Recorder::newest_complete_checkpoint() const { return first_->checkpoints->newest_complete(); }

void Recorder::keep_if_best(const RunPosition& position, const Metric& metric, const Tower& tower) {
  if (first_) first_->checkpoints->keep_if_best(position, first_->task_score.of(metric), tower);
}

ControlFlags Recorder::requests(Clock::time_point now) {
  if (!first_) return {};
  ControlFlags requests = first_->checkpoints->poll(now);
  requests.stop = first_->is_time_up(now);
  first_->time_was_up = first_->time_was_up || requests.stop;
  return requests;
}

void Recorder::finish(const RunPosition& position, ExitCode code, std::vector<double> rank_work) {
  mpi_.run_on_all([&] {
    if (first_) first_->checkpoints->finish(position, code);
  });
  const std::int64_t memory = peak_memory_mib(mpi_);
  if (!first_) return;
  Console& console = first_->log->console();
  RunSummary summary = first_->summary(position.step, std::move(rank_work));
  const std::optional<StepScore>& best = first_->checkpoints->best();
  if (best) summary.best = best;  // of the whole training; the summary knows this run only
  for (const std::string& line : summary_lines(summary)) console.print(line);
  if (best) {
    console.print(best_checkpoint_line(best_checkpoint_path(first_->options.checkpoint.train_dir).string(), *best));
  }
  console.print(fmt::format("wrote {}; peak memory of a rank {} MiB",
                            checkpoint_path(first_->options.checkpoint.train_dir, position.step).string(), memory));
  if (code == ExitCode::stopped) {
    console.print(fmt::format("stopped by {} at step {}: start again to resume",
                              first_->time_was_up ? "--time-limit" : "a signal", position.step));
  }
}

}  // namespace carillon
