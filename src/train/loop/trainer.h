// Trainer: a whole training run, from options to an evaluated, checkpointed model. Each training program creates a
// Trainer after it has initialised MPI and opened its device.
//
//   open and compare data -> start or resume -> step, log, checkpoint, evaluate -> final checkpoint
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "carillon/cli/options/train_options.h"
#include "src/cli/options/run_description.h"
#include "src/comm/allreduce/communicator.h"
#include "src/comm/mpi/cpu_share.h"
#include "src/comm/stall/stall_detector.h"
#include "src/data/loading/batch_loader.h"
#include "src/step/tower.h"
#include "src/train/checkpointing/run_checkpoints.h"
#include "src/train/checkpointing/run_start.h"
#include "src/train/control/stop_signal.h"
#include "src/train/diagnosis/replica_checks.h"
#include "src/train/evaluation/evaluator.h"
#include "src/train/input/records.h"
#include "src/train/loop/head_fit.h"
#include "src/train/loop/pace.h"
#include "src/train/loop/run_times.h"
#include "src/train/loop/step_plan.h"
#include "src/train/loop/training_log.h"
#include "src/train/loop/training_setup.h"

namespace carillon {

class Trainer {
 public:
  using Clock = std::chrono::steady_clock;

  /// `description`: the options as stored in checkpoints; the trainer adds facts about the data. `started`: start time
  /// of the program. All referenced objects must outlive the trainer. Collective.
  Trainer(const TrainOptions& options, RunDescription description, const Mpi& mpi, Device& device,
          Communicator& communicator, StallDetector& stall_detector, const CpuShare& cpu,
          Clock::time_point started = Clock::now());
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Trains until --max-steps or --stop-at-accuracy is reached, or --patience is over. Returns `done`; `stopped` after
  /// a signal or --time-limit; `io` if checkpoints kept failing. Collective.
  ExitCode run();

 private:
  void open_data();
  /// Returns the training records, or null if the run reads no records.
  const Dataset* dataset() const { return records_ ? &records_->dataset() : nullptr; }
  /// Computes the number of steps from --epochs.
  void count_epochs();
  /// Prints the number of damaged records that were skipped. Collective.
  void report_skipped();
  /// Fits the last layer for --fit-head. Collective.
  void fit_last_layer();
  /// True if an evaluation has ended the run.
  bool ends_early() const { return has_reached_ || patience_.is_over(); }
  /// Calls run_from_position(). If only this rank has an error, saves the last completed step and then rethrows the
  /// error.
  ExitCode run_and_save_at_errors();
  /// Saves the last completed step if it can. Returns the result of LastStepSaver::save.
  std::string save_at_error() const;
  /// Trains from `position_`, saves and evaluates at the end.
  ExitCode run_from_position();
  ExitCode train();
  int decode_threads() const;
  /// Makes the stall detector name the records that the ranks read.
  void describe_data();
  /// Enters a phase. Returns the time.
  Clock::time_point enter(Phase phase);
  void take_step(const StepPlan& plan);
  void take_results(Results wanted);
  /// On rank 0: returns the step of the newest complete checkpoint, or -1 if there is none. A signal handler may call
  /// this.
  std::int64_t safe_step() const;
  /// Returns the requests of this rank. Rank 0 checks whether --time-limit is over.
  ControlFlags own_requests();
  bool is_time_up() const { return stop_at_ && Clock::now() >= *stop_at_; }
  /// Combines the requests of all ranks. Returns ControlFlags{} if no rank has requested a synchronisation. Collective.
  ControlFlags exchange_control_flags();
  void log_step(const StepPlan& plan, const StepResult& result);
  /// If the task's loss is not finite, throws `failed` on all ranks. With OnNan::report the error names the cause.
  void check_task_loss(const StepResult& result);
  void check_total_loss(const StepResult& result);
  void evaluate();
  /// Position of the update `step` in the schedule of the learning rate.
  std::int64_t schedule_step(std::int64_t step) const;
  /// The estimated time of an evaluation, divided by the time of a step.
  double evaluation_steps() const;
  /// Logs the first plan. If --time-budget is over already, plans a single step. After a head fit, a short run begins
  /// at a later position in its schedule, with a lower rate. If the time suffices for less than one pass
  /// (fine_tuning_passes), plans a single step at the lowest rate, because more steps would only make the network
  /// worse. Collective.
  void begin_pace();
  /// True if the state after the head fit is to be evaluated. With --time-budget, the evaluation must take only a small
  /// part of the remaining time. Collective.
  bool evaluates_head() const;
  /// Fits the rest of the run into --time-budget. Collective.
  void replan();
  void save();
  /// Saves because the time between two saves has passed. Equal runs may save at different steps, so saving must not
  /// change any bit of later steps.
  void save_by_time();

  std::uint64_t global_batch() const { return static_cast<std::uint64_t>(options_.data.batch_size) * mpi_.size(); }

  TrainOptions options_;  ///< --epochs (once the data are open) and --time-budget set max_steps
  RunDescription description_;
  TaskScore score_;
  Patience patience_;
  FoundRecords found_ = {};  ///< facts about the training records, used to make network_
  Network network_;
  OptimizerSettings optimizer_;
  const Mpi& mpi_;
  Device& device_;
  Communicator& communicator_;
  StallDetector& stall_detector_;
  int thread_count_;

  PhaseTimes phases_;
  std::optional<Clock::time_point> stop_at_;  ///< on rank 0: the end of --time-limit
  bool time_was_up_ = false;                  ///< --time-limit has ended the run

  std::optional<TrainingRecords> records_;
  std::optional<Dataset> eval_dataset_;
  std::optional<Tower> tower_;
  std::optional<Audit> audit_;  ///< only with --audit
  std::optional<Evaluator> evaluator_;
  std::unique_ptr<DirectoryLock> lock_;  ///< destroyed after all members that write to the directory
  TrainingLog log_;
  std::optional<RunCheckpoints> checkpoints_;
  std::optional<StopNotice> stop_notice_;  ///< on rank 0, from the first step on
  std::optional<RankTimes> rank_times_;    ///< only with several ranks on CPUs

  RunPosition position_;
  std::optional<Pace> pace_;                      ///< only with --time-budget
  std::optional<HeadFit> head_fit_;               ///< only if --fit-head had an effect in this process
  std::int64_t evaluations_ = 0;                  ///< number of evaluations by this process
  std::optional<StepResult> before_;              ///< the losses of RunStart::before
  std::optional<LastStepSaver> last_step_saver_;  ///< on a CPU, from the first step on; uses the members above
  std::int64_t resumed_step_ = -1;                ///< step of the checkpoint that the run resumed from
  std::int64_t saved_step_ = -1;                  ///< step of the newest checkpoint, which may not be complete
  bool has_reached_ = false;                      ///< an evaluation reached the score that ends the run
  std::int64_t evaluated_step_ = -1;              ///< step of the last evaluation of this process
  BatchLoader* loader_ = nullptr;                 ///< not null while steps are taken
  StepResult latest_;                             ///< the last result that was taken
  std::deque<StepPlan> to_log_;                   ///< plans of steps that log their loss, until their results are taken
  bool sync_requested_ = false;  ///< a result since the last synchronisation reports that a rank requested one
};

}  // namespace carillon
