// Trainer: from options to an evaluated, checkpointed model; what mnist_train does once MPI and device are there.
//
//   open and compare data -> start or resume -> step, log, checkpoint, evaluate -> final checkpoint
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "carillon/app/options.h"
#include "carillon/checkpoint/checkpoint.h"
#include "carillon/checkpoint/directory_lock.h"
#include "carillon/comm/communicator.h"
#include "carillon/comm/cpu_share.h"
#include "carillon/data/batch_loader.h"
#include "carillon/report/run_log.h"
#include "carillon/step/tower.h"

namespace carillon {

class Trainer {
 public:
  /// `option_values`: OptionSet::values, stored with checkpoints. References outlive the trainer. Collective.
  Trainer(const TrainOptions& options, nlohmann::json option_values, const Mpi& mpi, Device& device,
          Communicator& communicator, const CpuShare& cpu);
  ~Trainer();

  /// Trains up to --max-steps; done, or stopped after a signal. Collective.
  ExitCode run();

 private:
  struct Position {
    std::int64_t step = 0;              ///< updates applied
    std::uint64_t stream_position = 0;  ///< of the next sample
    bool resumed = false;
  };
  struct Totals {  ///< since the last logged step
    std::int64_t steps = 0;
    double data_wait_seconds = 0.0, allreduce_seconds = 0.0;
    std::chrono::steady_clock::time_point since;
  };

  void open_data();
  void open_train_dir();
  Position start_or_resume();
  std::optional<LoadedCheckpoint> checkpoint_to_resume();
  void refuse_other_model(const LoadedCheckpoint& loaded) const;
  void note_resume(const LoadedCheckpoint& loaded);
  void say_nothing_to_do(const Position& position) const;
  void open_logs(const Position& position);
  void announce();
  void log_placement();

  ExitCode train(Position& position);
  void take_step(BatchLoader& loader, std::int64_t step);
  void summarize(std::int64_t step, const Batch& batch);
  void take_results(bool all);
  void refuse_diverged(std::int64_t step, double loss) const;
  void log_step(std::int64_t step, double cross_entropy, double l2_loss);
  void start_checkpoint(const Position& position);
  void evaluate(std::int64_t step);
  void finish(const Position& position, bool stopped);

  bool is_first() const { return mpi_.rank() == 0; }
  std::uint64_t global_batch() const { return static_cast<std::uint64_t>(options_.batch_size) * mpi_.size(); }
  bool due(std::int64_t step, std::int64_t every) const { return every > 0 && step % every == 0; }

  const TrainOptions& options_;
  nlohmann::json option_values_;
  Network network_;
  SummaryStyle summary_style_ = network_.name == "cifar10" ? SummaryStyle::layers : SummaryStyle::variables;
  const Mpi& mpi_;
  Device& device_;
  Communicator& communicator_;
  CpuShare cpu_;
  OptimizerSettings optimizer_;

  std::optional<Dataset> dataset_, eval_dataset_;
  std::optional<Tower> tower_;
  std::optional<Evaluator> evaluator_;
  // On rank 0 only:
  std::optional<DirectoryLock> lock_;
  std::optional<RunLog> log_;
  std::optional<CheckpointWriter> writer_;
  std::optional<LayerSummarizer> summarizer_;

  Totals totals_;
  StepResult latest_;            ///< of the steps whose results are taken
  bool stop_requested_ = false;  ///< by some rank, in one of them
};

}  // namespace carillon
