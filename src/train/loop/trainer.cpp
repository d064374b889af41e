#include "src/train/loop/trainer.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <new>

#include "carillon/core/error.h"
#include "kernels/conv2d/conv2d.h"
#include "src/cli/options/option_groups.h"
#include "src/core/text.h"
#include "src/report/console.h"
#include "src/step/gradients/reducer.h"
#include "src/train/control/agreement.h"
#include "src/train/diagnosis/replay.h"
#include "src/train/diagnosis/replica_checks.h"
#include "src/train/loop/training_setup.h"

namespace carillon {

Trainer::Trainer(const TrainOptions& options, RunDescription description, const Mpi& mpi, Device& device,
                 Communicator& communicator, StallDetector& stall_detector, const CpuShare& cpu,
                 Clock::time_point started)
    : options_(options),
      description_(std::move(description)),
      score_(options_.task.value, options_.task.target_score()),
      patience_(score_, options_.task.patience),
      network_(network_to_train(options_)),
      optimizer_(options_.optimizer.settings()),
      mpi_(mpi),
      device_(device),
      communicator_(communicator),
      stall_detector_(stall_detector),
      thread_count_(cpu.thread_count),
      phases_(started),
      stop_at_(mpi.rank() == 0 ? stop_time(options_.checkpoint) : std::nullopt),
      log_(options_, score_, description_, mpi) {}

Trainer::~Trainer() { stall_detector_.describe_data({}); }

ExitCode Trainer::run() {
  open_data();
  lock_ = lock_train_directory(options_.checkpoint.train_dir, mpi_);
  checkpoints_.emplace(options_.checkpoint, options_.model, score_, description_, mpi_,
                       [this](const std::string& line) { log_.warn(line); });
  TowerSettings settings = tower_settings(options_);
  settings.dataset = dataset();
  settings.bucket_bytes = bucket_bytes_on(device_.kind(), settings.bucket_bytes, mpi_.hosts());
  tower_.emplace(network_, options_.task.value, settings, device_, communicator_);
  if (device_.kind() == DeviceKind::cpu) {
    description_.add("winograd convolutions", winograd_convolutions(tower_->graph(), options_.device.cpu.convolution),
                     Scope::result);
  }
  const RunStart start = start_or_resume(options_.checkpoint, options_.model, dataset(), description_, *tower_, mpi_);
  position_ = start.position;
  if (options_.optimizer.time_budget > 0.0 && options_.optimizer.trains()) {
    pace_.emplace(options_.optimizer.time_budget, options_.optimizer.max_steps, position_.step, start.pace,
                  evaluation_steps());
    options_.optimizer.max_steps = pace_->point().last_step;
  }
  if (options_.checkpoint.fit_head && !position_.resumed && options_.optimizer.trains()) fit_last_layer();
  if (position_.resumed) {
    const ResumedRun resumed{options_, start, eval_dataset_.has_value(), score_, *checkpoints_, *tower_, mpi_};
    if (const std::optional<EndCause> end = end_of_resumed(resumed, patience_)) {
      if (mpi_.rank() == 0) {
        print_text(STDOUT_FILENO, nothing_to_do_line(options_, position_.step, *end) + "\n");
      }
      return ExitCode::done;
    }
    resumed_step_ = saved_step_ = position_.step;
    before_ = start.before;
  }
  if (device_.kind() == DeviceKind::cpu) {
    last_step_saver_.emplace(LastStepSaver::Training{.options = options_.checkpoint,
                                                     .model = options_.model,
                                                     .description = description_,
                                                     .first = position_,
                                                     .global_batch = global_batch(),
                                                     .tower = *tower_,
                                                     .mpi = mpi_},
                             stall_detector_);
  }
  try {
    return run_and_save_at_errors();
  } catch (...) {
    stop_notice_.reset();
    throw;
  }
}

ExitCode Trainer::run_and_save_at_errors() {
  try {
    return run_from_position();
  } catch (const SharedError&) {
    throw;
  } catch (const ChangedInMemory&) {  // does not save the variables, because they may also have changed in memory
    throw;
  } catch (const PeerFailed&) {
    throw;
  } catch (const Error& error) {
    const std::string saved = save_at_error();
    // Saving may fail with the same error, for example because a variable is not finite.
    const bool repeats_it = saved.find(error.what()) != std::string::npos;
    throw Error(error.code(), repeats_it ? error.what() : error.what() + saved);
  } catch (const std::bad_alloc&) {
    throw Error(ExitCode::failed, "out of memory" + save_at_error());
  } catch (const std::exception& error) {
    throw Error(ExitCode::failed, error.what() + save_at_error());
  }
}

std::string Trainer::save_at_error() const { return last_step_saver_ ? last_step_saver_->save() : ""; }

ExitCode Trainer::run_from_position() {
  const bool lacks_evaluation_alone = position_.resumed && position_.step >= options_.optimizer.max_steps;
  const std::int64_t max_steps = options_.optimizer.max_steps;
  checkpoints_->check_bounds(position_, max_steps, static_cast<std::int64_t>(global_batch()), *tower_);
  if (!lacks_evaluation_alone) {
    checkpoints_->check_space(max_steps - position_.step, !options_.data.eval_files.empty(), *tower_);
  }
  log_.open(position_.step);  // may remove checkpoints of the earlier run: no check may follow
  if (before_ && plan_step(before_->step, options_).logs) {
    log_.complete(*before_, optimizer_.learning_rate.rate(schedule_step(before_->step)));
  }
  log_.announce({*tower_, device_, communicator_.name(), thread_count_, dataset(), is_time_up()});
  if (mpi_.rank() == 0) {
    stop_notice_.emplace(
        position_.step, [this] { return safe_step(); }, [this] { return stall_detector_.has_failed_rank(); });
  }
  const bool trains = max_steps > 0;
  const ExitCode code = trains && !lacks_evaluation_alone ? train() : ExitCode::done;
  if (saved_step_ != position_.step) save();
  if (trains && code == ExitCode::done && eval_dataset_ && evaluated_step_ != position_.step) evaluate();
  if (code == ExitCode::done && patience_.is_over() && !has_reached_ && position_.step < max_steps) {
    log_.print(patience_line(position_.step, options_.task.patience, patience_.best()));
  }
  enter(Phase::finish);
  if (options_.data.skip_damaged) report_skipped();
  std::vector<double> rank_work;
  if (rank_times_) rank_work = rank_times_->worked();
  checkpoints_->finish(position_, code);
  log_.finish({.position = position_,
               .code = code,
               .seconds = phases_.seconds(),
               .rank_work = std::move(rank_work),
               .best_checkpoint = checkpoints_->best(),
               .stopped_by = time_was_up_ ? "--time-limit" : "a signal"});
  stop_notice_.reset();
  return code;
}

void Trainer::report_skipped() {
  std::array<std::int64_t, 1> count{records_ ? static_cast<std::int64_t>(dataset()->skipped_count()) : 0};
  mpi_.sum(count);
  if (mpi_.rank() != 0 || count[0] == 0) return;
  print_warning(fmt::format("{} {} skipped, each counted by every rank that read it",
                            count_text(count[0], "damaged record"), count[0] == 1 ? "was" : "were"));
}

void Trainer::fit_last_layer() {
  enter(Phase::start);
  const Dataset records = open_records(options_.data.files, options_.data.record_form, RecordUse::evaluation,
                                       {.image_key = options_.data.image_key,
                                        .target_key = options_.data.label_key,
                                        .cache = options_.data.cache,
                                        .heartbeat = [this] { stall_detector_.heartbeat(); }},
                                       mpi_);
  std::optional<HeadFitLimits> limits;
  if (pace_) {
    // The head fit gets half of the remaining time, and the steps get the other half. The features of a part of the
    // records are enough for a good last layer.
    constexpr double features_share = 1.0 / 3.0, fit_share = 1.0 / 2.0;
    const auto after = [&, left = std::max(0.0, pace_->seconds_left(phases_.seconds()))](double share) {
      return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(share * left));
    };
    limits = {.features = after(features_share), .fit = after(fit_share)};
  }
  head_fit_ = fit_head(
      network_for_images(options_, records.image_shape(), found_), options_, records, *tower_, mpi_, device_,
      decode_threads(), [this] { stall_detector_.heartbeat(); }, limits);
}

void Trainer::open_data() {
  const RecordOptions records{.image_key = options_.data.image_key,
                              .target_key = options_.data.label_key,
                              .cache = options_.data.cache,
                              .stage = options_.data.stage,
                              .heartbeat = [this] { stall_detector_.heartbeat(); }};
  if (options_.optimizer.trains() || !network_.values_of_data.empty()) {
    records_.emplace(options_, records, decode_threads(), mpi_);
  }
  if (!options_.data.eval_files.empty()) {
    eval_dataset_ =
        open_records(options_.data.eval_files, options_.data.record_form, RecordUse::evaluation, records, mpi_);
  }
  mpi_.run_on_all([&] {
    const Dataset* const evaluated = eval_dataset_ ? &*eval_dataset_ : nullptr;
    for (const Dataset* const one : {dataset(), evaluated}) {
      check(one == nullptr || one->target_spec() == options_.task.value.target,
            "records with other targets than the task's");
    }
    count_epochs();
    if (records_) {
      found_ = {.density = dataset()->density(), .record_count = dataset()->size()};
      network_ = network_to_train(options_, found_);
    }
  });
  if (records_ && options_.optimizer.trains()) records_->use_targets(options_.task.value);
  const auto checksum = [](const Dataset& dataset) { return static_cast<std::uint64_t>(dataset.fingerprint()); };
  if (records_) {
    description_.add("training records", dataset()->size(), Scope::result);
    description_.add("training record checksum", checksum(*dataset()), Scope::result);
  }
  if (eval_dataset_) description_.add("evaluation record checksum", checksum(*eval_dataset_), Scope::run);
  require_equal_on_all_ranks(mpi_, description_.fields());
}

void Trainer::count_epochs() {
  if (options_.optimizer.epochs == 0.0) return;
  resolve_epochs(options_.optimizer, dataset()->size(), global_batch(), description_);
  optimizer_ = options_.optimizer.settings();
}

ExitCode Trainer::train() {
  BatchLoader loader = records_->loader_from(position_.stream_position);
  loader_ = &loader;
  describe_data();
  log_.start_clock();
  checkpoints_->start_clock();
  if (head_fit_) log_.log_head_fit(position_.step, head_fit_->records);
  if (pace_) begin_pace();
  // The host thread of a GPU does not wait while the GPU waits for other ranks, so its work time does not reveal
  // stragglers.
  if (mpi_.size() > 1 && device_.kind() == DeviceKind::cpu) rank_times_.emplace(mpi_, stall_detector_, position_.step);
  // Resuming dropped all log lines from this step on, so the evaluation of this step is repeated.
  if (position_.resumed && eval_dataset_) evaluate();
  if (evaluates_head()) evaluate();
  if (options_.faults.audit > 0) audit_.emplace(*tower_, device_, mpi_, [this] { stall_detector_.heartbeat(); });
  while (position_.step < options_.optimizer.max_steps && !ends_early()) {
    if (pace_ && pace_->is_due(position_.step)) replan();
    const StepPlan plan = plan_step(position_.step, options_);
    if (plan.tells_loss()) to_log_.push_back(plan);
    take_step(plan);
    // Later steps would change the variables that the replay of a diverged step needs.
    const bool waits = plan.needs_results() || options_.faults.on_nan == OnNan::report;
    take_results(waits ? Results::all : Results::due);
    log_.show_progress(latest_, tower_->captured_nodes());
    if (plan.compares) check_replicas(position_.step, *tower_, device_, mpi_);
    if (plan.last) break;
    const ControlFlags requested = exchange_control_flags();
    if (requested.give_up) return ExitCode::io;
    if (requested.stop) return ExitCode::stopped;
    if (plan.saves) {
      save();
    } else if (requested.save) {
      save_by_time();
    }
    if (plan.evaluates) evaluate();
  }
  return ExitCode::done;
}

int Trainer::decode_threads() const {
  if (options_.data.decode_threads > 0) return static_cast<int>(options_.data.decode_threads);
  // A rank with a GPU needs its cores only for decoding.
  return device_.kind() == DeviceKind::cpu ? PrefetchSettings{}.thread_count : std::max(2, thread_count_);
}

void Trainer::describe_data() {
  if (dataset()->in_memory()) return;
  stall_detector_.describe_data([this, first = position_](int rank, std::int64_t step) {
    const std::uint64_t before = static_cast<std::uint64_t>(step - first.step) * global_batch();
    const std::uint64_t position =
        first.stream_position + before + static_cast<std::uint64_t>(options_.data.batch_size) * rank;
    return "whose batch begins with " + records_->name_at(position);
  });
}

Trainer::Clock::time_point Trainer::enter(Phase phase) {
  stall_detector_.enter(phase, position_.step);
  const Clock::time_point now = Clock::now();
  phases_.enter(phase, now);
  return now;
}

void Trainer::take_step(const StepPlan& plan) {
  if (stop_notice_) stop_notice_->enter_step(plan.step);
  const auto start = enter(Phase::data);
  const Batch& batch = tower_->keeps_records() ? loader_->next_by_records() : loader_->next();
  log_.count_step(std::chrono::duration<double>(enter(Phase::compute) - start).count());
  StepRequest request{.step = plan.step,
                      .schedule_step = schedule_step(plan.step),
                      .batch = batch,
                      .request_sync = own_requests().any(),
                      .reports_l2 = plan.tells_loss()};
  if (plan.summarizes) {  // set on all ranks: a step with before_update is launched differently
    request.before_update = [&] { log_.summarize(plan.step, loader_->whole(), *tower_, device_); };
  }
  plan.audits ? audit_->step(request) : tower_->step(request);
  position_.step += 1;
  position_.stream_position += global_batch();
}

void Trainer::take_results(Results wanted) {
  while (const std::optional<StepResult> result = tower_->next_result(wanted)) {
    check_task_loss(*result);
    log_.count_result(*result);
    sync_requested_ = sync_requested_ || result->sync_requested;
    latest_ = *result;
    if (to_log_.empty() || to_log_.front().step != result->step) continue;
    log_step(to_log_.front(), *result);
    to_log_.pop_front();
  }
}

std::int64_t Trainer::safe_step() const { return std::max(resumed_step_, checkpoints_->newest_complete()); }

ControlFlags Trainer::own_requests() {
  ControlFlags own = checkpoints_->poll();
  own.stop = is_time_up();
  time_was_up_ = time_was_up_ || own.stop;
  own.stop = own.stop || stop_signal_caught();
  return own;
}

ControlFlags Trainer::exchange_control_flags() {
  if (!sync_requested_) return {};
  take_results(Results::all);  // other steps in flight may report the same request
  sync_requested_ = false;
  return requested_by_any(mpi_, own_requests());
}

void Trainer::log_step(const StepPlan& plan, const StepResult& result) {
  check_total_loss(result);
  if (last_step_saver_) last_step_saver_->note(result);
  std::vector<double> rank_seconds;
  if (plan.logs && rank_times_) rank_seconds = rank_times_->since_last(plan.step + 1);
  log_.log_step(plan, result, optimizer_.learning_rate.rate(schedule_step(plan.step)), std::move(rank_seconds));
}

void Trainer::check_task_loss(const StepResult& result) {
  if (std::isfinite(result.loss)) return;
  if (last_step_saver_) last_step_saver_->stop();
  const std::string line = nonfinite_line(result.step, result.loss);
  if (options_.faults.on_nan == OnNan::stop) fail_on_all(mpi_, ExitCode::failed, line);
  const BuildSettings settings{options_.data.samples_at_once(), options_.device.arithmetic, Purpose::training,
                               device_.kind()};
  fail_with_cause(line, {*tower_, device_, settings, loader_->whole(), *dataset()}, mpi_);
}

void Trainer::check_total_loss(const StepResult& result) {
  const double total = total_loss(result);
  if (std::isfinite(static_cast<float>(total))) return;
  if (last_step_saver_) last_step_saver_->stop();
  const std::string line = nonfinite_line(result.step, total);
  if (options_.faults.on_nan == OnNan::stop) fail_on_all(mpi_, ExitCode::failed, line);
  fail_with_l2_cause(line, *tower_, device_, mpi_);
}

std::int64_t Trainer::schedule_step(std::int64_t step) const { return pace_ ? pace_->schedule_step(step) : step; }

double Trainer::evaluation_steps() const {
  if (!eval_dataset_) return 0.0;
  const auto views = static_cast<double>(options_.data.test_time_augmentation ? most_views : 1);
  return forward_share * views * static_cast<double>(eval_dataset_->size()) / static_cast<double>(global_batch());
}

void Trainer::begin_pace() {
  constexpr double fewest_passes = 1.0;
  const PhaseSeconds spent = phases_.seconds();
  std::array<double, 1> left{pace_->seconds_left(spent)};
  mpi_.broadcast(std::as_writable_bytes(std::span(left)), 0);
  bool ends = left[0] <= 0.0;
  if (head_fit_) {
    constexpr double share_of_steps = 0.8;  // the rest of the time is for evaluations
    const auto records = static_cast<std::int64_t>(dataset()->size());
    const double samples = share_of_steps * left[0] / head_fit_->training_seconds_per_record();
    const double passes = fine_tuning_passes(samples, records);
    ends = ends || passes < fewest_passes;
    const double share = ends ? 0.0 : fine_tuning_share(passes);
    pace_->start_at(latest_position(optimizer_.learning_rate, options_.optimizer.max_steps, share));
    if (ends) log_.print("the time is too short to train the other layers: the run ends after the fit");
  }
  if (ends) {
    pace_->replan(position_.step, 1, spent);
    options_.optimizer.max_steps = pace_->point().last_step;
  }
  log_.log_pace(pace_->point());
}

bool Trainer::evaluates_head() const {
  if (!head_fit_ || !eval_dataset_) return false;
  if (!pace_) return true;
  constexpr double most_share = 0.2;
  const double seconds = head_fit_->seconds_per_record * static_cast<double>(eval_dataset_->size());
  std::uint8_t evaluates = seconds <= most_share * pace_->seconds_left(phases_.seconds()) ? 1 : 0;
  mpi_.broadcast(std::as_writable_bytes(std::span(&evaluates, 1)), 0);
  return evaluates != 0;
}

void Trainer::replan() {
  take_results(Results::all);  // takes the results of all steps before the new plan
  const PhaseSeconds spent = phases_.seconds();
  std::int64_t left =
      pace_->fitting_steps(position_.step, spent, evaluations_, eval_dataset_ ? options_.data.eval_every : 0);
  mpi_.broadcast(std::as_writable_bytes(std::span(&left, 1)), 0);
  pace_->replan(position_.step, left, spent);
  options_.optimizer.max_steps = pace_->point().last_step;
  log_.log_pace(pace_->point());
}

void Trainer::save() {
  enter(Phase::checkpoint);
  if (options_.faults.check_replicas > 0) check_replicas(position_.step, *tower_, device_, mpi_);
  tower_->synchronize_buffers();
  if (last_step_saver_) last_step_saver_->expect_checkpoint(position_.step);
  checkpoints_->save(position_, *tower_);
  saved_step_ = position_.step;
}

void Trainer::save_by_time() {
  const Tower::RankBuffers own = tower_->rank_buffers();
  save();
  tower_->restore(own);
}

void Trainer::evaluate() {
  const auto start = enter(Phase::evaluation);
  if (!evaluator_) {
    const Network network = network_for_images(options_, eval_dataset_->image_shape(), found_);
    const EvaluatedPart part = part_of(*eval_dataset_, mpi_);
    evaluator_.emplace(network, evaluator_settings(options_, network, device_.kind(), part, decode_threads()), device_);
  }
  tower_->synchronize_buffers();
  evaluator_->load_averages(tower_->moving_averages(), tower_->buffers());
  const std::unique_ptr<Metric> metric =
      evaluator_->evaluate(options_.task.value.make_metric, *eval_dataset_, mpi_, [&] { stall_detector_.heartbeat(); });
  const Score score = score_.of(*metric);
  evaluated_step_ = position_.step;
  ++evaluations_;
  log_.log_evaluation(position_.step, *metric, enter(Phase::checkpoint) - start);
  // A resumed run also evaluates at other steps, at which it would not have evaluated without the interruption. These
  // evaluations must not change its result.
  const bool is_planned = evaluates_after(position_.step, options_);
  if (is_planned) patience_.add({position_.step, score});
  if (head_fit_ && position_.step == 0) {
    // The steps may make the network worse than the fit of its last layer.
    return checkpoints_->keep_if_best(position_, score, *tower_);
  }
  if (!is_planned && position_.step < options_.optimizer.max_steps) return;
  has_reached_ = score_.reaches_target(score);
  if (has_reached_) log_.print(target_line(position_.step, score, options_.task.stop_at_accuracy, phases_.seconds()));
  checkpoints_->keep_if_best(position_, score, *tower_);
}

}  // namespace carillon
