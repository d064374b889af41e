#include "src/train/loop/training_log.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "src/cli/options/option_groups.h"
#include "src/core/text.h"
#include "src/train/checkpointing/run_checkpoints.h"
#include "src/train/input/records.h"
#include "src/train/loop/run_times.h"

namespace carillon {
namespace {

/// Prints the device of each op and the memory of the activations.
void print_placement(const Tower& tower, const std::string& device, Console& console) {
  for (const Graph::Node& node : tower.graph().nodes()) {
    console.print(
        fmt::format("{}: ({}): /job:worker/replica:0/task:0/device:{}", node.name, node.definition->type(), device));
  }
  console.print(fmt::format("activations and their gradients: {} bytes", tower.activation_bytes()));
}

/// Prints the nodes of a captured step, one line each.
void print_captured_step(const std::vector<std::string>& nodes, Console& console) {
  console.print(fmt::format("captured step: {} nodes", nodes.size()));
  for (std::size_t i = 0; i < nodes.size(); ++i) console.print(fmt::format("{:>4}  {}", i + 1, nodes[i]));
}

/// Returns, for example, "mnist: 397510 parameters; 2 ranks on CPU:0, 1 thread each, gradients averaged over mpi shared
/// memory; ...".
std::string description_line(const TrainingLog::Parts& parts, const TrainOptions& options, int ranks) {
  std::int64_t parameters = 0;
  for (const ParameterSpec& spec : parts.tower.graph().parameters()) parameters += spec.shape.element_count();
  std::string line =
      fmt::format("{}: {} parameters; {} rank{} on {}, {} thread{} each", options.model.name, parameters, ranks,
                  ranks == 1 ? "" : "s", parts.device.name(), parts.thread_count, parts.thread_count == 1 ? "" : "s");
  if (ranks > 1) line += fmt::format(", gradients averaged over {}", parts.communicator);
  const std::optional<Arithmetic> precision = options.device.precision;
  if (precision != Arithmetic::fp32) line += fmt::format(", precision {}", text_of(precision_choices, precision));
  if (parts.dataset != nullptr) {
    line += fmt::format("; {} records {}, global batch {}", parts.dataset->size(),
                        parts.dataset->in_memory() ? "in memory" : "read ahead", options.data.batch_size * ranks);
    if (options.data.micro_batch > 0) line += fmt::format(" in micro-batches of {}", options.data.micro_batch);
    const OptimizerOptions& length = options.optimizer;
    if (length.epochs > 0.0) line += fmt::format("; --epochs {}: {} steps", length.epochs, length.max_steps);
  }
  return line;
}

/// Returns the parameters' histograms on rank 0. If rank 0's host has a second rank, that rank computes the histograms
/// of the variables, which are equal on all ranks. The two ranks then compute at the same time, so that the other ranks
/// wait half as long. Collective.
std::optional<ParameterHistograms> shared_histograms(const ParameterStore& parameters, Device& device, const Mpi& mpi) {
  if (mpi.hosts()[mpi.rank()] != mpi.hosts()[0]) return std::nullopt;
  if (mpi.local_size() == 1) return parameter_histograms(parameters, device, {});
  constexpr int second = 1;
  ParameterHistograms histograms;
  if (mpi.local_rank() <= second) {
    const bool is_second = mpi.local_rank() == second;
    histograms = parameter_histograms(parameters, device, {.variables = is_second, .gradients = !is_second});
  }
  const std::vector<std::string> texts = mpi.local_all_gather(pack(histograms.variables));
  if (mpi.rank() != 0) return std::nullopt;
  histograms.variables = unpack_histograms(texts[second]);
  return histograms;
}

/// Returns the largest peak resident memory of any rank, in MiB.
std::int64_t peak_memory_mib(const Mpi& mpi) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::int64_t largest = 0;
  for (const std::string& text : mpi.all_gather(std::to_string(usage.ru_maxrss / 1024))) {
    largest = std::max<std::int64_t>(largest, std::stoll(text));
  }
  return largest;
}

/// Returns the norm of the gradients of the variables that `step` trains, or nullopt if a gradient is not finite.
std::optional<double> gradient_norm(const ParameterHistograms& histograms, const Tower& tower, std::int64_t step) {
  double squares = 0.0;
  for (std::size_t i = 0; i < histograms.gradients.size(); ++i) {
    const Histogram& gradient = histograms.gradients[i];
    if (!tower.trains(static_cast<int>(i), step)) continue;
    if (gradient.count != static_cast<double>(tower.parameters().layout().count(static_cast<int>(i)))) {
      return std::nullopt;  // a histogram counts only finite values
    }
    squares += gradient.sum_squares;
  }
  return std::sqrt(squares);
}

}  // namespace

std::string label_smoothing_line(double smoothing, std::int64_t classes) {
  const double other = smoothing / static_cast<double>(classes), own = 1.0 - smoothing + other;
  const auto part = [](double share) { return share > 0.0 ? -share * std::log(share) : 0.0; };
  const double smallest = part(own) + static_cast<double>(classes - 1) * part(other);
  return fmt::format("label smoothing {}: with {} classes, the training loss stays above {:.2f}", smoothing, classes,
                     std::floor(100.0 * smallest) / 100.0);
}

struct TrainingLog::Writer {
  const TrainOptions& options;
  const TaskScore& score;
  const RunDescription& description;
  int tower_count;
  Stragglers stragglers;
  std::optional<RunLog> log{};
  std::optional<LayerSummarizer> summarizer{};
  bool shows_captured = true;  ///< true until the captured step has been printed
  StepClock clock{};
  DurationNotice duration_notice{options.logging.faster_choice};
  std::optional<double> l2_loss{};          ///< L2 loss of the last logged step
  std::optional<double> summarized_norm{};  ///< norm of the gradient that was summarized, until its step is logged
  std::int64_t first_step = 0;
  std::optional<StepScore> best{};  ///< best evaluation of this run

  std::int64_t global_batch() const { return options.data.batch_size * tower_count; }
};

TrainingLog::TrainingLog(const TrainOptions& options, const TaskScore& score, const RunDescription& description,
                         const Mpi& mpi)
    : mpi_(mpi) {
  Stragglers stragglers(mpi.all_gather(mpi.host()));
  if (mpi.rank() == 0) writer_.reset(new Writer{options, score, description, mpi.size(), std::move(stragglers)});
}

TrainingLog::~TrainingLog() = default;

void TrainingLog::open(std::int64_t first_step) {
  mpi_.run_on_all([&] {
    if (!writer_) return;
    const TrainOptions& options = writer_->options;
    writer_->first_step = first_step;
    const CheckpointOptions& checkpoint = options.checkpoint;
    if (checkpoint.fresh) remove_run_files(checkpoint.train_dir);
    // A write may fail, for example if the disk is full. Therefore the checkpoint is complete before anything is
    // replaced.
    const bool from_best = checkpoint.resume == ResumeMode::best;
    if (from_best) save_best_as_checkpoint(checkpoint.train_dir, first_step);
    if (checkpoint.begins_plan) begin_next_plan(checkpoint.train_dir);
    if (from_best) remove_later_checkpoints(checkpoint.train_dir, first_step);
    writer_->log.emplace(checkpoint.train_dir,
                         RunLogSettings{.names_layers = options.logging.summary_style == SummaryStyle::layers,
                                        .loss_name = options.task.value.loss_name,
                                        .prints_l2_apart = !options.logging.as_reference,
                                        .prints_gradient_norm = options.optimizer.update.clip_norm > 0.0,
                                        .first_step = first_step,
                                        .last_step = std::max(options.optimizer.max_steps, first_step + 1)});
    if (is_synthetic(options.data.files)) writer_->log->console().set_note(synthetic_note);
  });
}

void TrainingLog::complete(const StepResult& last, double learning_rate) {
  if (!writer_ || logs_loss_from(writer_->options.checkpoint.train_dir, last.step)) return;
  writer_->log->untimed_step(last, learning_rate);
}

void TrainingLog::print(const std::string& line) {
  if (writer_) writer_->log->console().print(line);
}

void TrainingLog::warn(const std::string& line) {
  if (writer_) writer_->log ? writer_->log->console().warn(line) : print_warning(line);
}

void TrainingLog::announce(const Parts& parts) {
  if (!writer_) return;
  Console& console = writer_->log->console();
  if (writer_->options.device.log_device_placement) print_placement(parts.tower, parts.device.name(), console);
  const TrainOptions& options = writer_->options;
  console.print(description_line(parts, options, writer_->tower_count));
  if (parts.is_time_up) {
    console.warn(
        fmt::format("--time-limit {}: less than --time-margin {} s is left, so the run stops after its first step",
                    options.checkpoint.time_limit, options.checkpoint.time_margin));
  }
  const TaskOptions& task = options.task;
  if (task.label_smoothing > 0.0 && !task.weighs_classes() && task.focal_gamma == 0.0) {
    console.print(label_smoothing_line(task.label_smoothing, options.data.record_form.schema.class_count));
  }
  writer_->log->graph(parts.tower.graph(), parts.device.name(), options.optimizer.update.rule, writer_->tower_count);
  if (options.logging.summary_every == 0) return;
  std::vector<Field> settings = writer_->description.fields();
  for (Field& setting : settings) setting.name = shown_name(setting.name);
  writer_->log->settings(writer_->first_step, settings);
}

void TrainingLog::start_clock() {
  if (writer_) writer_->clock.start();
}

void TrainingLog::count_step(double data_wait_seconds) {
  if (writer_) writer_->clock.take_step(data_wait_seconds);
}

void TrainingLog::count_result(const StepResult& result) {
  if (!writer_) return;
  writer_->clock.end_step(result.reduce_seconds, result.finished);
  if (writer_->options.optimizer.time_budget > 0.0) return;  // no notice: the budget already limits the duration
  const std::int64_t left = writer_->options.optimizer.max_steps - result.step - 1;
  const std::optional<std::string> notice = writer_->duration_notice.end_step(result.finished, left);
  if (notice) writer_->log->console().print(*notice);
}

void TrainingLog::summarize(std::int64_t step, const Batch& batch, const Tower& tower, Device& device) {
  const std::optional<ParameterHistograms> histograms = shared_histograms(tower.parameters(), device, mpi_);
  if (!writer_) return;
  writer_->log->parameters(step, tower.parameters().specs(), *histograms);
  writer_->summarized_norm = gradient_norm(*histograms, tower, step);
  const TrainOptions& options = writer_->options;
  if (options.logging.summary_style != SummaryStyle::layers) return;
  if (!writer_->summarizer) {
    writer_->summarizer.emplace(
        tower.network(), BuildSettings{options.data.samples_at_once(), options.device.arithmetic, Purpose::summary},
        tower.parameters(), tower.buffers(), device);
  }
  writer_->log->layers(
      step, writer_->summarizer->summarize(batch.part(0, static_cast<std::size_t>(options.data.samples_at_once()))));
}

void TrainingLog::log_step(const StepPlan& plan, const StepResult& result, double learning_rate,
                           std::vector<double> rank_seconds) {
  if (!writer_) return;
  writer_->l2_loss = result.l2_loss;
  const StepClock::Means seconds = writer_->clock.means();
  const auto ago =
      std::chrono::duration_cast<std::chrono::system_clock::duration>(StepClock::Clock::now() - writer_->clock.end());
  StepRecord record{.result = result,
                    .wall_time = std::chrono::system_clock::now() - ago,
                    .learning_rate = learning_rate,
                    .step_seconds = seconds.step,
                    .data_wait_seconds = seconds.data_wait,
                    .allreduce_seconds = seconds.allreduce,
                    .rank_seconds = std::move(rank_seconds),
                    .global_batch = writer_->global_batch(),
                    .tower_count = writer_->tower_count};
  const std::optional<double> summarized = std::exchange(writer_->summarized_norm, std::nullopt);
  if (!record.result.gradient_norm) record.result.gradient_norm = summarized;
  const bool is_curve_point = plan.logs && !writer_->options.logging.as_reference;
  if (plan.summarizes || is_curve_point) writer_->log->scalars(record);
  if (!plan.logs) return;
  const std::optional<std::string> slow = writer_->stragglers.add(record.rank_seconds, writer_->clock.seconds());
  if (slow) writer_->log->console().warn(*slow);
  writer_->log->step(record);
  writer_->clock.restart();
}

void TrainingLog::show_progress(const StepResult& latest, const std::vector<std::string>& captured_nodes) {
  if (!writer_) return;
  Console& console = writer_->log->console();
  const bool shows_nodes = writer_->options.device.log_device_placement && !captured_nodes.empty();
  if (shows_nodes && std::exchange(writer_->shows_captured, false)) print_captured_step(captured_nodes, console);
  // Only logged steps compute the L2 part. This part changes slowly, so the last computed value is accurate enough
  // between logged steps.
  const std::optional<double> l2 = writer_->options.logging.as_reference ? writer_->l2_loss : 0.0;
  console.progress(latest.step + 1, l2 ? std::optional(latest.loss + *l2) : std::nullopt);
}

void TrainingLog::log_pace(const PacePoint& point) {
  if (writer_) writer_->log->pace(point);
}

void TrainingLog::log_head_fit(std::int64_t step, std::int64_t records) {
  if (writer_) writer_->log->head_fit(step, records);
}

void TrainingLog::log_evaluation(std::int64_t step, const Metric& metric, Clock::duration spent) {
  if (!writer_) return;
  writer_->log->evaluation(step, metric, std::chrono::duration<double>(spent).count());
  const Score score = writer_->score.of(metric);
  if (!writer_->best || writer_->score.is_better(score, writer_->best->score)) writer_->best = {step, score};
  writer_->clock.exclude(spent);
  writer_->duration_notice.exclude(spent);
}

void TrainingLog::finish(const End& end) {
  const std::int64_t memory = peak_memory_mib(mpi_);
  if (!writer_) return;
  Console& console = writer_->log->console();
  const std::string& train_dir = writer_->options.checkpoint.train_dir;
  const std::int64_t step = end.position.step;
  const RunSummary summary{.first_step = writer_->first_step,
                           .last_step = step,
                           .global_batch = writer_->global_batch(),
                           .best = end.best_checkpoint ? end.best_checkpoint : writer_->best,
                           .seconds = end.seconds,
                           .rank_work = end.rank_work};
  for (const std::string& line : summary_lines(summary)) console.print(line);
  if (end.best_checkpoint) {
    console.print(best_checkpoint_line(best_checkpoint_path(train_dir).string(), *end.best_checkpoint));
  }
  console.print(
      fmt::format("wrote {}; peak memory of a rank {} MiB", checkpoint_path(train_dir, step).string(), memory));
  if (end.code == ExitCode::stopped) {
    console.print(fmt::format("stopped by {} at step {}: start again to resume", end.stopped_by, step));
  }
}

}  // namespace carillon
