#include "src/train/checkpointing/resume.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>

#include "carillon/core/error.h"
#include "src/core/text.h"
#include "src/models/position_grid.h"
#include "src/report/console.h"
#include "src/train/checkpointing/best_checkpoint.h"
#include "src/train/checkpointing/init_from.h"
#include "src/train/checkpointing/training_state.h"

namespace carillon {
namespace {

std::optional<LoadedCheckpoint> checkpoint_to_resume(const CheckpointOptions& options, std::uint64_t max_bytes) {
  const std::filesystem::path directory = options.train_dir;
  if (options.fresh) return std::nullopt;
  if (options.resume == ResumeMode::never) {
    const std::vector<std::int64_t> steps = list_checkpoints(directory);
    if (steps.empty()) return std::nullopt;
    fail(ExitCode::usage, "--resume never: {} is there already; --fresh would remove it",
         checkpoint_path(directory, steps.front()).string());
  }
  auto loaded = read_newest_checkpoint(directory, print_warning, max_bytes);
  if (!loaded && options.resume == ResumeMode::require) {
    fail(ExitCode::no_input, "--resume require: no checkpoint in {}", directory.string());
  }
  return loaded;
}

/// Errors: usage (the checkpoint is of another task).
void require_same_task(const LoadedCheckpoint& checkpoint, const RunDescription& description) {
  const nlohmann::json before = nlohmann::json::parse(checkpoint.state.options_json, nullptr, false);
  const nlohmann::json now = nlohmann::json::parse(description.json(), nullptr, false);
  if (!before.is_object() || !before.contains("task") || before["task"] == now.value("task", nlohmann::json())) return;
  fail(ExitCode::usage, "{} has the task {}, and this run has {}: choose another --train-dir, or set --fresh",
       checkpoint.path.string(), printable(before["task"].dump()), now.value("task", nlohmann::json()).dump());
}

RunStart load_or_initialize(const CheckpointOptions& options, const ModelOptions& model, const Dataset* dataset,
                            const RunDescription& description, Tower& tower) {
  const std::uint64_t max_bytes = checkpoint_read_limit(max_checkpoint_bytes(tower.network()));
  const std::optional<LoadedCheckpoint> loaded = checkpoint_to_resume(options, max_bytes);
  if (!loaded) {
    initialize(options, model, dataset, description, tower);
    return {};
  }
  check_model(*loaded, model, "--train-dir");
  require_same_task(*loaded, description);
  tower.restore(*loaded);
  print_resumed(*loaded, options, description);
  const std::optional<PacePoint> pace = logged_pace(options.train_dir, loaded->state.global_step);
  return {.position = {.step = loaded->state.global_step,
                       .stream_position = loaded->state.stream_position,
                       .resumed = true},
          .same_evaluation = same_evaluation(loaded->state.options_json, description),
          .has_pace = pace.has_value(),
          .pace = pace.value_or(PacePoint{})};
}

/// Evaluates `condition` on rank 0 and returns the result on all ranks. Collective. Errors: the errors of `condition`.
bool first_rank_finds(const Mpi& mpi, const std::function<bool()>& condition) {
  std::uint8_t found = 0;
  mpi.run_on_all([&] { found = mpi.rank() == 0 && condition() ? 1 : 0; });
  mpi.broadcast(std::as_writable_bytes(std::span(&found, 1)), 0);
  return found != 0;
}

/// On rank 0: the score of the evaluation at the checkpoint's step; nullopt if this evaluation is not logged.
std::optional<Score> last_evaluation(const ResumedRun& run) {
  return logged_score(run.options.checkpoint.train_dir, run.start.position.step, run.score.form());
}

/// Whether the last evaluation is logged and, if it is the best evaluation, best.ckpt.h5 is written for it. Collective.
bool has_last_evaluation(const ResumedRun& run) {
  return first_rank_finds(run.mpi, [&] {
    const std::optional<Score> logged = last_evaluation(run);
    return logged && run.checkpoints.has_kept(*logged, run.tower);
  });
}

/// As has_last_evaluation; in addition, the evaluation must have reached the target. Collective.
bool has_reached_target(const ResumedRun& run) {
  return first_rank_finds(run.mpi, [&] {
    const std::optional<Score> logged = last_evaluation(run);
    return run.start.same_evaluation && logged && run.score.reaches_target(*logged) &&
           run.checkpoints.has_kept(*logged, run.tower);
  });
}

/// The logged evaluations up to the checkpoint's step, in their order. Other ranks than 0 get only the values of the
/// scores. Empty if the run was evaluated on other records. Collective.
std::vector<StepScore> logged_evaluations(const ResumedRun& run) {
  if (!run.start.same_evaluation) return {};
  std::vector<StepScore> found;
  std::vector<double> sent;  // step and value of each: a step is below 2^53
  const bool is_first = run.mpi.rank() == 0;
  run.mpi.run_on_all([&] {
    if (!is_first) return;
    found = logged_scores(run.options.checkpoint.train_dir, run.start.position.step, run.score.form());
    for (const auto& [step, score] : found) sent.insert(sent.end(), {static_cast<double>(step), score.value});
  });
  const std::string bytes =
      run.mpi.all_gather({reinterpret_cast<const char*>(sent.data()), sent.size() * sizeof(double)}).front();
  if (is_first) return found;
  sent.resize(bytes.size() / sizeof(double));
  if (!sent.empty()) std::memcpy(sent.data(), bytes.data(), bytes.size());
  for (std::size_t i = 0; i < sent.size(); i += 2) {
    found.push_back({static_cast<std::int64_t>(sent[i]), {.name = {}, .value = sent[i + 1]}});
  }
  return found;
}

}  // namespace

void print_resumed(const LoadedCheckpoint& checkpoint, const CheckpointOptions& options,
                   const RunDescription& description) {
  print_text(STDOUT_FILENO,
             fmt::format("resuming from {} at step {}{}\n", printable(checkpoint.path.string()),
                         checkpoint.state.global_step, options.init_from.empty() ? "" : "; --init-from is not used"));
  for (const std::string& change : description.changes_since(checkpoint.state.options_json)) print_warning(change);
}

RunStart start_or_resume(const CheckpointOptions& options, const ModelOptions& model, const Dataset* dataset,
                         const RunDescription& description, Tower& tower, const Mpi& mpi) {
  RunStart start;
  mpi.run_on_all([&] {
    if (mpi.rank() == 0) start = load_or_initialize(options, model, dataset, description, tower);
  });
  mpi.broadcast(std::as_writable_bytes(std::span(&start, 1)), 0);
  tower.broadcast_from_first();
  return start;
}

std::optional<EndCause> end_of_resumed(const ResumedRun& run, Patience& patience) {
  const auto end_if = [](bool is_finished, EndCause end) { return is_finished ? std::optional(end) : std::nullopt; };
  const std::int64_t step = run.start.position.step, max_steps = run.options.optimizer.max_steps;
  if (step >= max_steps) {
    const bool ends_with_evaluation = run.has_eval_data && max_steps > 0 && step == max_steps;
    return end_if(!ends_with_evaluation || has_last_evaluation(run), EndCause::steps);
  }
  if (!run.has_eval_data) return std::nullopt;
  if (run.score.has_target() && has_reached_target(run)) return EndCause::target;
  if (run.options.task.patience == 0) return std::nullopt;
  Patience with_this_step = patience;
  for (const StepScore& evaluation : logged_evaluations(run)) {
    if (!evaluates_after(evaluation.step, run.options)) continue;
    with_this_step.add(evaluation);
    if (evaluation.step < step) patience.add(evaluation);  // the run repeats the evaluation of this step
  }
  return end_if(with_this_step.is_over() && has_last_evaluation(run), EndCause::patience);
}

std::string nothing_to_do_line(const TrainOptions& options, std::int64_t step, EndCause end) {
  const std::string why =
      end == EndCause::target
          ? fmt::format("whose evaluation reached --stop-at-accuracy {}", options.task.stop_at_accuracy)
      : end == EndCause::patience ? fmt::format("where --patience {} ended the run", options.task.patience)
      : options.optimizer.time_budget > 0.0
          ? fmt::format("where --time-budget {} ended the run", options.optimizer.time_budget)
      : options.optimizer.epochs > 0.0 ? fmt::format("and --epochs {} has {}", options.optimizer.epochs,
                                                     count_text(options.optimizer.max_steps, "step"))
                                       : fmt::format("and --max-steps is {}", options.optimizer.max_steps);
  return fmt::format("nothing to do: {} holds step {}, {} (--fresh starts over)",
                     printable(options.checkpoint.train_dir), step, why);
}

}  // namespace carillon
