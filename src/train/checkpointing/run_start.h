// The start of a run. A run starts from the newest checkpoint of its train directory, from the variables of a
// checkpoint or of a file with PyTorch's weights (--init-from), or from initial values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "carillon/cli/options/train_options.h"
#include "carillon/data/dataset.h"
#include "src/cli/options/run_description.h"
#include "src/comm/mpi/mpi.h"
#include "src/report/metrics.h"
#include "src/step/tower.h"
#include "src/train/checkpointing/run_checkpoints.h"
#include "src/train/evaluation/evaluator.h"
#include "src/train/loop/step_plan.h"

namespace carillon {

/// Prints that a run starts from the arrays of `initial`, except the arrays named in `excluded`. Warns if `initial` was
/// trained with another --preprocessing than the run of `description`.
void print_initialized(const LoadedCheckpoint& initial, const std::vector<std::string>& excluded,
                       const RunDescription& description);

struct RunStart {
  RunPosition position;
  bool same_evaluation = false;        ///< true: this run resumes, and its earlier evaluations used the same records
  std::optional<PacePoint> pace = {};  ///< only if this run resumes: last point up to `position` in metrics.jsonl
  /// Step and losses of the last step before `position`. Set if rank 0 may have ended before it logged this step.
  std::optional<StepResult> before = {};
};

/// Rank 0 loads its tower from a checkpoint or initializes it, according to --resume and --fresh. Rank 0 then sends its
/// state to all ranks. Prints from which checkpoint the run resumes, and which settings that affect the result have
/// changed. Collective. Errors: usage (--resume never is set, but the directory has a checkpoint; the checkpoint
/// belongs to another task; --init-exclude matches no variable), no_input (--resume require is set, but there is no
/// checkpoint; the file of --init-from is missing), data (the checkpoint is damaged or belongs to another model), io.
RunStart start_or_resume(const CheckpointOptions& options, const ModelOptions& model, const Dataset* dataset,
                         const RunDescription& description, Tower& tower, const Mpi& mpi);

/// Prints the checkpoint from which a run resumes. Warns of changed settings.
void print_resumed(const LoadedCheckpoint& checkpoint, const CheckpointOptions& options,
                   const RunDescription& description);

/// Why a run has ended.
enum class EndCause {
  steps,    ///< the run reached --max-steps
  target,   ///< the run reached --stop-at-accuracy
  patience  ///< --patience is exhausted
};

/// A run that resumes.
struct ResumedRun {
  const TrainOptions& options;
  RunStart start;
  bool has_eval_data;
  const TaskScore& score;
  RunCheckpoints& checkpoints;
  const Tower& tower;
  const Mpi& mpi;
};

/// If the run already ended at this checkpoint, returns the reason why it ended. Otherwise the run continues: returns
/// nullopt, and adds the logged evaluations before the checkpoint to `patience`. A run also continues if it was killed
/// before it logged its last evaluation. A run also continues if its last evaluation was the best and the run was
/// killed before it wrote best.ckpt.h5. Collective.
std::optional<EndCause> end_of_resumed(const ResumedRun& run, Patience& patience);

/// Returns the line that says that the run already ended at `step`, and states the cause.
std::string nothing_to_do_line(const TrainOptions& options, std::int64_t step, EndCause end);

}  // namespace carillon
